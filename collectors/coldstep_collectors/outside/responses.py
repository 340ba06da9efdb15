"""The first response that a server of the process sends: from then on somebody is served. Later ones pass no hook."""

from __future__ import annotations

from functools import wraps
from typing import Any

from coldstep.clock import now
from coldstep.events import Slice
from coldstep.pftrace.layout import RESPONSE
from coldstep_collectors.outside.around import TRACK, Around

_STARTS = "http.response.start"
_FAILED = 500  # and above: the server answers, but does not serve


def watch_asgi(module: Any, around: Around) -> None:
    """Hook what sends each message of uvicorn's, until the first response has begun."""
    cycle = getattr(module, "RequestResponseCycle", None)
    real = getattr(cycle, "send", None)
    if cycle is None or real is None:
        return
    sent = around.sink.guarded("outside", _sent)

    @wraps(real)
    def send(self: Any, message: Any) -> Any:
        begun = real(self, message)
        if isinstance(message, dict) and message.get("type") == _STARTS and sent(around, message.get("status")):
            _take_away(cycle, "send", send, real)
        return begun

    around.put(cycle, "send", send)


def watch_wsgi(module: Any, around: Around) -> None:
    """Hook what sends the headers of gunicorn's responses, until the first has been sent."""
    response = getattr(module, "Response", None)
    real = getattr(response, "send_headers", None)
    if response is None or real is None:
        return
    sent = around.sink.guarded("outside", _sent)

    @wraps(real)
    def send_headers(self: Any) -> Any:
        done = real(self)
        if sent(around, getattr(self, "status_code", None)):
            _take_away(response, "send_headers", send_headers, real)
        return done

    around.put(response, "send_headers", send_headers)


def _sent(around: Around, status: Any) -> bool:
    if not isinstance(status, int) or status >= _FAILED:
        return False
    ns = now()
    around.sink.emit(Slice(ns, ns, RESPONSE, TRACK, {"status": status}))
    return True


def _take_away(owner: Any, name: str, ours: Any, real: Any) -> None:
    if vars(owner).get(name) is ours:
        setattr(owner, name, real)
