"""Reads what TensorFlow prints with no setting at all: its warning that a function is traced again and again."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.blind_spots import COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Begin, End
from coldstep.logs import Line, Log, Seen
from coldstep_collectors.log_definitions import about_unasked

# TensorFlow 2.1: "WARNING:tensorflow:5 out of the last 9 calls to <function train_one at 0x7f0a> triggered tf.function
# retracing. Tracing is expensive and the excessive number of tracings is likely due to passing python objects"
# TensorFlow 2.21: "WARNING:tensorflow:6 out of the last 6 calls to <function train_one at 0x7f0a> triggered tf.function
# retracing. Tracing is expensive and the excessive number of tracings could be due to (1) creating @tf.function"
_RETRACING = re.compile(
    r"(?P<traced>\d{1,9}) out of the last \d{1,9} calls to (?P<what>.{1,1000}?) triggered tf\.function retracing"
)
# Python: "<function train_one at 0x7f0a>"
# Python: "<bound method Trainer.step of <__main__.Trainer object at 0x7f0a>>"
_FUNCTION = re.compile(r"<(?:function|bound method) (?P<name>\S+)")
_ONLY_WARNED = Unseen(
    "traces, their times and causes: the log has only TensorFlow's own warnings, from a function's fifth trace on (no "
    "setting adds more; this does: coldstep run -- python train.py)",
    COMPILES,
    RECOMPILES,
    PHASES,
)


class Retracing:
    """Reads TensorFlow's warnings in the log of one process."""

    name: ClassVar[str] = "tensorflow"
    marks: ClassVar[tuple[bytes, ...]] = (b"triggered tf.function retracing",)
    goes_on = False

    def __init__(self, log: Log) -> None:
        self._log = log
        self._traced: dict[str, int] = {}

    def read(self, line: Line) -> bool:
        """Take in a line."""
        match = _RETRACING.search(line.text)
        if match is None:
            return False
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
        self._log.emit(begin)
        self._log.emit(End(ns, begin, {"outcome": "compiled"}))

    def end(self) -> Seen | None:
        """All compiles have been emitted."""
        return Seen("partial", None, [_ONLY_WARNED]) if self._traced else None
