"""Reads what Inductor prints of its autotuning: the operation, the choices, which one won, how long that took."""

from __future__ import annotations

import re
from dataclasses import field
from typing import ClassVar

from coldstep._util.slotted import slotted
from coldstep.events import CHOICES, TUNED, Args, Begin, End
from coldstep.logs import Line, Log
from coldstep.vocabulary import AUTOTUNE
from coldstep_collectors.log_definitions import about_unasked

# PyTorch 2.0, 2.7: "AUTOTUNE bias_addmm(512x1979, 512x512, 512x1979)"
_OPERATION = re.compile(r"AUTOTUNE (?P<operation>\w{1,99}\([^\n]{1,999}\))$")
# PyTorch 2.7: "  triton_mm_13 4.1953 ms 98.1% ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=32"
_CHOICE = re.compile(r"\s{1,4}(?P<name>\w{1,200}) (?P<ms>\d{1,9}\.\d{1,9}) ?m?s \d{1,3}\.\d%")
# PyTorch 2.0: "SingleProcess AUTOTUNE takes 2.949904441833496 seconds"
# PyTorch 2.7: "SingleProcess AUTOTUNE benchmarking takes 0.9773 seconds and 0.6039 seconds precompiling for 17 choices"
_TOOK = re.compile(
    r"AUTOTUNE (?:benchmarking )?takes (?P<timing>\d{1,9}\.\d{1,20}) seconds"
    r"(?: and (?P<compiling>\d{1,9}\.\d{1,20}) seconds precompiling)?(?: for (?P<choices>\d{1,9}) choices)?"
)
_MOST_LINES = 60  # of one operation
_MOST_TUNED = 5_000


@slotted
class _Tuned:
    """What is known of one operation's choices."""

    operation: str = ""
    choices: list[tuple[str, int]] = field(default_factory=list)
    """The names and times in nanoseconds, the fastest first; where the head is lost, not from the first on."""
    number: int = 0
    compiling_ns: int = 0
    timing_ns: int = 0
    ns: int = 0

    def outcome(self) -> Args:
        """In the words of the collector."""
        choices = self.choices if self.operation else []
        kernel = self.operation.partition("(")[0]
        return {
            "operation": self.operation or "an operation",
            "choices": self.number or len(self.choices),
            "winner": choices[0][0] if choices else "one that is not known",
            "best_ns": choices[0][1] if choices else None,
            "untuned_ns": next((ns for name, ns in choices if name == kernel), None),
        }


class AutotuneLines:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"AUTOTUNE ",)

    def __init__(self) -> None:
        self._tuned: list[_Tuned] = []
        self._open = _Tuned()
        self._lines = 0

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be a choice of the operation."""
        return self._lines > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._lines -= self._lines > 0
        if match := _OPERATION.search(line.text):
            self._open, self._lines = _Tuned(match["operation"]), _MOST_LINES
        elif match := _TOOK.search(line.text):
            self._open.timing_ns, self._open.compiling_ns = (
                round(float(match[name] or 0) * 1e9) for name in ("timing", "compiling")
            )
            self._open.number, self._open.ns = int(match["choices"] or 0), line.ns
            self._tuned += [self._open] if len(self._tuned) < _MOST_TUNED else []
            self._open, self._lines = _Tuned(), 0
        elif self._lines and (match := _CHOICE.match(line.text)):
            self._open.choices.append((match["name"], round(float(match["ms"]) * 1e6)))
        else:
            return False
        return True

    def emit(self, log: Log, has_compiles: bool) -> bool:
        """Emit each operation, in a compile of its own but where the log `has_compiles`. Returns whether there are
        any."""
        spans: list[tuple[int, int]] = []
        for tuned in self._tuned:
            start = max(1, tuned.ns - tuned.timing_ns - tuned.compiling_ns, spans[-1][1] if spans else 0)
            spans.append((start, start + tuned.timing_ns + tuned.compiling_ns))
        id = log.new_compile() if spans and not has_compiles else None
        if id is not None:
            about = about_unasked("dynamo", "a function")
            begin = Begin(spans[0][0], about["function"], "torch", None, id, about)
            log.emit(begin)
        for tuned, (start, end) in zip(self._tuned, spans, strict=True):
            _emit(log, tuned, start, end, id)
        if id is not None:
            log.emit(End(spans[-1][1], begin, {"outcome": "compiled"}))
        return bool(spans)


def _emit(log: Log, tuned: _Tuned, start: int, end: int, of: str | None) -> None:
    timing_from = start + tuned.compiling_ns
    for begun, ended, args in ((start, timing_from, {CHOICES: True}), (timing_from, end, {})):
        if ended > begun:
            piece = Begin(begun, "autotune", "torch", AUTOTUNE, None, args)
            log.emit(piece)
            log.emit(End(ended, piece))
    done = Begin(end, "autotuned", "torch", AUTOTUNE, None, {TUNED: tuned.outcome(), "of": of})
    log.emit(done)
    log.emit(End(end, done))
