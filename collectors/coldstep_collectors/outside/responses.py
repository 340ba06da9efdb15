"""The first response that a server of the process sends: from then on somebody is served. Later ones pass no hook."""

from __future__ import annotations

from collections.abc import Callable
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
    _until_one(module, "RequestResponseCycle", "send", _begun_with, around)


def watch_wsgi(module: Any, around: Around) -> None:
    """Hook what sends the headers of gunicorn's responses, until the first has been sent."""
    _until_one(module, "Response", "send_headers", lambda response: getattr(response, "status_code", None), around)


def _begun_with(_: Any, message: Any) -> Any:
    return message.get("status") if message.get("type") == _STARTS else None


def _until_one(module: Any, class_: str, name: str, status_of: Callable[..., Any], around: Around) -> None:
    owner: Any = getattr(module, class_, None)
    if (real := getattr(owner, name, None)) is None:
        return

    def sent(*args: Any, **kwargs: Any) -> bool:
        return _is_sent(around, status_of(*args, **kwargs))

    is_sent = around.sink.guarded("outside", sent)

    @wraps(real)
    def sends(*args: Any, **kwargs: Any) -> Any:
        done = real(*args, **kwargs)
        if is_sent(*args, **kwargs) and vars(owner).get(name) is sends:
            setattr(owner, name, real)
        return done

    around.put(owner, name, sends)


def _is_sent(around: Around, status: Any) -> bool:
    if not isinstance(status, int) or status >= _FAILED:
        return False
    ns = now()
    around.sink.emit(Slice(ns, ns, RESPONSE, TRACK, {"status": status}))
    return True
