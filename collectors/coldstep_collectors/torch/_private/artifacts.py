"""The records of PyTorch's structured trace that hold the programs, and why a graph broke or compiled again."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.errors import our_errors
from coldstep.events import Begin, End
from coldstep_collectors.names import Form
from coldstep_collectors.patch import Patch
from coldstep_collectors.torch._private import names
from coldstep_collectors.torch._private.spans import Spans

RECOMPILE_REASONS = "recompile_reasons"
BREAK_REASON = "dynamo_graph_break_reason"
FAILED = "dynamo_error"
_WANTED = RECOMPILE_REASONS, BREAK_REASON
IR_EVENTS = {
    "dynamo_output_graph": "fx",
    "aot_joint_graph": "aot_joint_graph",
    "aot_inference_graph": "aot_inference_graph",
    "inductor_output_code": "inductor_code",
}
"""The events whose payload is a program, and the form that it is in."""


class Artifacts(logging.Handler):
    """Receives the two artifacts of PyTorch's structured trace that we want, and makes it compute no others; and
    programs, where the trace asks for them.

    Any handler on that logger makes PyTorch render megabytes of graphs. It asks first whether the list of handlers
    is empty; ours is a list that answers per artifact.
    """

    def __init__(self, wanted: Callable[[str, str], None], spans: Spans, sink: Sink) -> None:
        super().__init__()
        self._wanted, self._spans, self._sink = wanted, spans, sink
        self._rendering: dict[int, Begin] = {}
        self._patch: Patch | None = None
        self._logger = logging.getLogger("torch.__trace")
        self._is_installed = self._was_disabled = False

    def install(self) -> str | None:
        """Attach; returns what will not be seen, if anything."""
        if names.RECORDS.find() is not self._logger:
            return names.RECORDS.unseen
        if (form := names.EMITTER.form()) is not None:
            self._patch = Patch(self._logger, "handlers", _Selective(self, form, self._logger.handlers))
        else:  # dearer, since everything is rendered, but complete; in front, for torch's own may leave the list
            self._logger.handlers.insert(0, self)
        self._is_installed = True
        return None

    def attend(self) -> bool:
        """Be there again where the program has taken our handler away, or has disabled the logger with all others, as
        `logging.config` does unless asked not to; whether it had."""
        logger = self._logger
        gone = self not in logger.handlers
        if not self._is_installed or not (gone or logger.disabled):
            return False
        if gone:
            logger.handlers.insert(0, self)
        self._was_disabled = self._was_disabled or logger.disabled
        logger.disabled = False
        return True

    def remove(self) -> str | None:
        """Detach, and leave the other handlers where they are, those that came since included."""
        patch, self._patch, self._is_installed = self._patch, None, False
        others = [handler for handler in self._logger.handlers if handler is not self]
        left = patch.undo() if patch is not None else None
        if patch is not None and left is None:
            self._logger.handlers[:] = others
        self._logger.removeHandler(self)
        self._logger.disabled = self._logger.disabled or self._was_disabled
        return left

    def handle(self, record: logging.LogRecord) -> Any:
        """A record of the structured trace; takes no lock, for compiler threads emit here too."""
        metadata, payload = getattr(record, "metadata", None), getattr(record, "payload", None)
        if not isinstance(metadata, dict) or not isinstance(payload, str):
            return
        artifact = metadata.get("artifact")
        if isinstance(artifact, dict):
            if artifact.get("name") in _WANTED:
                self._wanted(artifact["name"], payload)
        elif self._sink.ir and (name := next((name for name in IR_EVENTS if name in metadata), None)) is not None:
            if (begin := self._rendering.pop(threading.get_ident(), None)) is not None:
                self._sink.emit(End(now(), begin))
            self._wanted(name, payload)
        elif "chromium_event" in metadata and self._spans.missing:
            with contextlib.suppress(ValueError):
                event = _parsed(payload)
                self._spans.event(event["ph"], event["name"], event.get("args"))

    def wants(self, name: str, metadata: Callable[[], Any]) -> bool:
        """Whether an event is for us."""
        if name == "artifact":
            return metadata().get("name") in _WANTED
        if name in IR_EVENTS and self._sink.ir:
            # PyTorch renders it between this question and `handle`
            begin = self._rendering[threading.get_ident()] = Begin(now(), IR_EVENTS[name], "coldstep", "coldstep")
            self._sink.emit(begin)
            return True
        return name == "chromium_event" and bool(self._spans.missing)


def _parsed(payload: str) -> Any:
    import json  # PyTorch has imported it: no trace of something else needs to

    return json.loads(payload)


class _Selective(list[logging.Handler]):
    """A logger's handlers, ours in front; is empty for `emitter`'s events that nobody in it wants."""

    def __init__(self, ours: Artifacts, emitter: Form, others: list[logging.Handler]) -> None:
        super().__init__([ours, *others])
        self._ours = ours
        self._emitter = emitter.find().__code__
        self._event = emitter.has

    def __bool__(self) -> bool:
        for handler in self:
            # torch's own handler with nowhere to write to leaves the list at the first event
            if handler is not self._ours and getattr(handler, "root_dir", self) is not None:
                return True
        caller = sys._getframe(1)
        if caller.f_code is not self._emitter:
            return False  # as it would be without us
        try:
            name, metadata = (caller.f_locals[each] for each in self._event)
            return self._ours.wants(name, metadata)
        except our_errors():
            return False


def recompile_reasons(payload: str) -> list[str]:
    """The framework's words, newest variant first."""
    if payload.startswith("["):
        with contextlib.suppress(ValueError):
            return [str(reason) for reason in _parsed(payload)]
    return [payload]
