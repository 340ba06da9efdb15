"""Reads what PyTorch prints of compiles when they are over: the seconds of each, and what `explain` makes of breaks."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.events import Begin, End, GraphBreak
from coldstep.logs import Line, Log
from coldstep_collectors.log_definitions import about_unasked
from coldstep_collectors.torch._private.breaks import BreakReason
from coldstep_collectors.torch.log_frames import about_break

# PyTorch 2.0, 2.13: "TorchDynamo compilation metrics:"
_METRICS = "TorchDynamo compilation metrics:"
# PyTorch 2.0: "torch._dynamo.convert_frame._compile                             7.1824, 0.0092"
# PyTorch 2.6: "_compile.compile_inner, 23.8579"
_COMPILED = re.compile(
    r"(?:(?:torch\._dynamo\.)?convert_frame\.)?_compile(?:\.<locals>)?(?:\.compile_inner)?,?\s{1,200}"
    r"(?P<seconds>\d{1,9}\.\d{1,9}(?:, \d{1,9}\.\d{1,9})*)$"
)
# PyTorch 2.1, 2.13: "    Reason: generic_jump TensorVariable()"
_REASON = re.compile(r"\s{4}Reason: (?P<reason>.{1,2000})$")
# PyTorch 2.1, 2.13: "      <FrameSummary file /repo/train.py, line 4 in step>"
_FRAME = re.compile(r"\s{6}<FrameSummary file (?P<file>.{1,1000}), line (?P<line>\d{1,9}) in (?P<name>.{1,200})>$")
_MOST_LINES = 60
_MOST_COMPILES = 2_000


class PrintedReports:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (_METRICS.encode(), b"Graph Break Count: ", b"  Break Reason ")

    def __init__(self) -> None:
        self._seconds: list[tuple[int, float]] = []
        self._reasons: list[BreakReason] = []
        self._lines = self._ns = 0

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be of a report."""
        return self._lines > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._lines -= self._lines > 0
        if line.text.startswith((_METRICS, "Graph Break Count: ", "  Break Reason ")):
            self._lines, self._ns = _MOST_LINES, line.ns
        elif self._lines and (match := _COMPILED.match(line.text)):
            self._seconds = [(line.ns, float(s)) for s in match["seconds"].split(", ")][
                :_MOST_COMPILES
            ]  # of all so far
        elif self._lines and (match := _REASON.match(line.text)):
            self._reasons.append(BreakReason(match["reason"], [], [], whole_frame=False))
        elif self._lines and self._reasons and (match := _FRAME.match(line.text)):
            self._reasons[-1].stack.append((match["file"], int(match["line"]), match["name"]))
        else:
            return False
        return True

    def emit(self, log: Log) -> bool:
        """Tell of each compile, and of the graph breaks of the function that was explained; whether there are any."""
        end = 1
        for ns, seconds in self._seconds:
            start = max(1, end, ns - round(1e9 * sum(s for _, s in self._seconds)))
            end = start + round(seconds * 1e9)
            _emit(log, "a function", start, end)
        if self._reasons:
            name = next((stack[0][2] for reason in self._reasons if (stack := reason.stack)), "a function")
            id = _emit(log, name, self._ns, self._ns)
            for number, reason in enumerate(self._reasons):
                if id is not None and log.takes_break():
                    log.emit(GraphBreak(self._ns, f"explained{number}", id, about_break(reason, name)))
        return bool(self._seconds or self._reasons)


def _emit(log: Log, name: str, start: int, end: int) -> str | None:
    id = log.new_compile()
    if id is not None:
        about = about_unasked("dynamo", name) | {"identity": id}  # nothing is known of recompiles
        begin = Begin(start, about["function"], "torch", None, id, about)
        log.emit(begin)
        log.emit(End(end, begin, {"outcome": "compiled"}))
    return id
