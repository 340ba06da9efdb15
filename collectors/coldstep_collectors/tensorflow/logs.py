"""Reads what TensorFlow prints with no setting at all: its warning that a function is traced again and again."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.blind_spots import Unseen, told_by
from coldstep.events import Begin, emit_whole
from coldstep.logs import Line, Log, Seen
from coldstep_collectors.log_definitions import about_unasked

# TensorFlow 2.1: "WARNING:tensorflow:5 out of the last 9 calls to <function train_one at 0x7f0a> triggered tf.function
# retracing. Tracing is expensive and the excessive number of tracings is likely due to passing python objects"
# TensorFlow 2.21: "WARNING:tensorflow:6 out of the last 6 calls to <function train_one at 0x7f0a> triggered tf.function
# retracing. Tracing is expensive and the excessive number of tracings could be due to (1) creating @tf.function"
# Somebody: "5 of the last 5 calls to <function train_one at 0x7f0a> triggered tf.function retracing."
_RETRACING = re.compile(
    r"(?P<traced>\d{1,9}) (?:out )?of the last \d{1,9} calls to (?P<what>.{1,1000}?) triggered tf\.function retracing"
)
# TensorFlow 2.1: "WARNING:tensorflow:5 out of the last 9 calls to <function train_one at"
_BEGUN = re.compile(r"\d{1,9} (?:out )?of the last \d{1,9} calls to <[^\n]{0,1000}$")
# TensorFlow 2.12: "Compiled cluster using XLA!  This line is logged at most once for the lifetime of the process."
_CLUSTER = "Compiled cluster using XLA!"
_FIRST_CLUSTER = "the first cluster that XLA compiled"
# Python: "<function train_one at 0x7f0a>"
# Python: "<bound method Trainer.step of <__main__.Trainer object at 0x7f0a>>"
_FUNCTION = re.compile(r"<(?:function|bound method) (?P<name>\S+)")
_MOST_LINES = 3
_ONLY_WARNED = Unseen(
    "traces, their times and causes: the log has only TensorFlow's own warnings, from a function's fifth trace on (no "
    "setting adds more; this does: coldstep run -- python train.py)",
    *told_by("tensorflow"),
)


class Retracing:
    """Reads TensorFlow's warnings in the log of one process."""

    name: ClassVar[str] = "tensorflow"
    marks: ClassVar[tuple[bytes, ...]] = (b"triggered tf.function retracing", b" calls to <", _CLUSTER.encode())

    def __init__(self, log: Log) -> None:
        self._log = log
        self._traced: dict[str, int] = {}
        self._known: set[str] = set()
        self._begun, self._lines = "", 0

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be the rest of one that a terminal has cut."""
        return self._begun != ""

    def read(self, line: Line) -> bool:
        """Take in a line."""
        if _CLUSTER in line.text and _FIRST_CLUSTER not in self._traced:
            self._emit(_FIRST_CLUSTER, 0, line.ns, "")
            return True
        text = f"{self._begun} {line.text.strip()}".strip()
        match = _RETRACING.search(text)
        self._lines = self._lines + 1 if self._begun else 0
        self._begun = text if match is None and self._lines < _MOST_LINES and _BEGUN.search(text) else ""
        if match is None:
            return False
        if match[0] in self._known:  # of another process or thread: one more trace has other numbers
            return True
        self._known.add(match[0])
        function = _FUNCTION.search(match["what"])
        name = function["name"] if function is not None else match["what"]
        known = self._traced.setdefault(name, 0)
        # each warning is of one more trace; the first of a function tells of those before it
        for number in range(known, max(known + 1, int(match["traced"]))):
            self._emit(name, number, line.ns, match[0])
        return True

    def _emit(self, name: str, number: int, ns: int, words: str) -> None:
        self._traced[name] = number + 1
        if (id := self._log.new_compile()) is None:
            return
        about = about_unasked("tensorflow", name)
        if number:
            about |= {"earlier": True, "guard_failures": [words]}
        begin = Begin(ns, about["function"], "tensorflow", None, id, about)
        emit_whole(self._log.emit, begin, ns, {"outcome": "compiled"})

    def end(self) -> Seen | None:
        """All compiles have been emitted."""
        return Seen("partial", None, [_ONLY_WARNED]) if self._traced else None
