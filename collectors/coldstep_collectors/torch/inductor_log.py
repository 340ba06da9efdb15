"""Reads what Inductor prints: of its autotuning the operation, the choices, which one won, how long that took; of a
compile how long it took, and what its cache answered; which graphs run without their CUDA graphs."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import ClassVar

from coldstep._util.slotted import field, slotted
from coldstep.events import CHOICES, TUNED, Args, Begin, End, emit_whole
from coldstep.logs import Line, Log
from coldstep.vocabulary import AUTOTUNE
from coldstep_collectors.log_definitions import about_unasked
from coldstep_collectors.torch._private.caches import FX_GRAPH
from coldstep_collectors.torch._private.cuda_graphs import SKIPS, without_a_cuda_graph
from coldstep_collectors.torch.log_frames import Frame

# PyTorch 2.0, 2.7: "AUTOTUNE bias_addmm(512x1979, 512x512, 512x1979)"
_OPERATION = re.compile(r"AUTOTUNE (?P<operation>\w{1,99}\([^\n]{1,999}\))$")
# PyTorch 2.7: "  triton_mm_13 4.1953 ms 98.1% ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=32"
# TorchServe: "W-9000-densenet161_1.0-stderr MODEL_LOG -   triton_mm_309 0.0154 ms 100.0%"
_CHOICE = re.compile(r"(?:^\s{1,4}|\s{3})(?P<name>\w{1,200}) (?P<ms>\d{1,9}\.\d{1,9}) ?m?s \d{1,3}\.\d%")
# PyTorch 2.0: "SingleProcess AUTOTUNE takes 2.949904441833496 seconds"
# PyTorch 2.7: "SingleProcess AUTOTUNE benchmarking takes 0.9773 seconds and 0.6039 seconds precompiling for 17 choices"
_TUNING_TOOK = re.compile(
    r"AUTOTUNE (?:benchmarking )?takes (?P<timing>\d{1,9}\.\d{1,20}) seconds"
    r"(?: and (?P<compiling>\d{1,9}\.\d{1,20}) seconds precompiling)?(?: for (?P<choices>\d{1,9}) choices)?"
)
# PyTorch 2.7: "{"num_choices": 20, "num_triton_choices": 19, "best_kernel": "mm", "best_time": 0.6659200191497803"
_NUMBER = re.compile(r'\{"num_choices": (?P<choices>\d{1,9}), "')
# PyTorch 2.2: "FX codegen and compilation took 4.111s"
_TOOK = re.compile(r"FX codegen and compilation took (?P<s>\d{1,9}\.\d{1,9})s")
# PyTorch 2.2: "fx graph cache: on-disk miss for key fihwjtavgh7lffl6lvcq5om25us65tp3diqz4owdc6kiysn73v25"
# PyTorch 2.7: "fx graph cache hit for key fihwjtavgh7lffl6lvcq5om25us65tp3diqz4owdc6kiysn73v25"
_ANSWER = re.compile(r"fx graph cache(?:: on-disk)? (?P<state>hit|miss) for key (?P<key>\w{1,99})")
# PyTorch 2.5: "Bypassing FX Graph Cache because 'Can't cache HigherOrderOperator: triton_kernel_wrapper_mutation'"
_BYPASS = re.compile(r"Bypassing FX Graph Cache because '(?P<why>.{1,500})'")
# PyTorch 2.0, 2.13: "Step 3: torchinductor compiling FORWARDS graph 0"
_STEP = re.compile(r"(?:Step 3: )?torchinductor (?:done )?compiling \w{1,20} graph \d")
_MOST_SHOWN = 10  # as Inductor has it: where as many are shown, there may be more
_GAP_NS = 10_000_000_000  # as long as no compile is silent: what is tuned after that may be of another one
_MOST_LINES = 60  # of one operation
_MOST_TUNED = 5_000
_MOST_SKIP_LINES, _MOST_SKIPS = 60, 1_000


@slotted
class _Tuned:
    """What is known of one operation's choices."""

    operation: str = ""
    choices: list[tuple[str, int]] = field(default_factory=list)
    """The names and times in nanoseconds, the fastest first; where the head is lost, not from the first on."""
    number: int = 0
    """How many choices there were; 0 where that is not known."""
    compiling_ns: int = 0
    timing_ns: int = 0
    ns: int = 0

    def outcome(self) -> Args:
        """In the words of the collector."""
        choices = self.choices if self.operation else []
        kernel = self.operation.partition("(")[0]
        return {
            "operation": self.operation or "an operation",
            "choices": self.number,
            "winner": choices[0][0] if choices else "one that is not known",
            "best_ns": choices[0][1] if choices else None,
            "untuned_ns": next((ns for name, ns in choices if name == kernel and self.timing_ns), None),
            "cached": self.compiling_ns > 0 and not self.timing_ns,
        }


class AutotuneLines:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"AUTOTUNE ", b'{"num_choices": ')

    def __init__(self) -> None:
        self._tuned: list[_Tuned] = []
        self._open = _Tuned()
        self._lines = self._number = 0

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be a choice of the operation."""
        return self._lines > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._lines -= self._lines > 0
        if match := _NUMBER.search(line.text):
            self._number = int(match["choices"])
        elif match := _OPERATION.search(line.text):
            self._close()
            self._open, self._lines = _Tuned(match["operation"], number=self._number, ns=line.ns), _MOST_LINES
            self._number = 0
        elif match := _TUNING_TOOK.search(line.text):
            self._open.timing_ns, self._open.compiling_ns = (
                round(float(match[name] or 0) * 1e9) for name in ("timing", "compiling")
            )
            shown = len(self._open.choices) if self._open.operation else 0
            self._open.number = int(match["choices"] or 0) or self._open.number or (shown if shown < _MOST_SHOWN else 0)
            self._open.ns = line.ns
            self._close(is_timed=True)
        elif self._lines and (match := _CHOICE.search(line.text)):
            self._open.choices.append((match["name"], round(float(match["ms"]) * 1e6)))
        else:
            return False
        return True

    def _close(self, is_timed: bool = False) -> None:
        """The operation that was spoken of last has been tuned; without choices and time nothing is known of it."""
        if (is_timed or self._open.choices) and len(self._tuned) < _MOST_TUNED:
            self._tuned.append(self._open)
        self._open, self._lines = _Tuned(), 0

    def emit(self, log: Log, has_compiles: bool) -> bool:
        """Emit each operation, the first ones in a compile of their own but where the log `has_compiles`. Returns
        whether there are any."""
        self._close()
        spans: list[tuple[int, int]] = []
        for tuned in self._tuned:
            start = max(1, tuned.ns - tuned.timing_ns - tuned.compiling_ns, spans[-1][1] if spans else 0)
            spans.append((start, start + tuned.timing_ns + tuned.compiling_ns))
        id = log.new_compile() if spans and not has_compiles else None
        if id is not None:
            about = about_unasked("dynamo", "a function")
            begin = Begin(spans[0][0], about["function"], "torch", None, id, about)
            log.emit(begin)
        gaps = (number for number, (last, row) in enumerate(pairwise(spans), 1) if row[0] - last[1] > _GAP_NS)
        first = next(gaps, len(spans))
        for number, (tuned, (start, end)) in enumerate(zip(self._tuned, spans, strict=True), 1):
            _emit(log, tuned, start, end, id if number <= first else None)
            if id is not None and number == first:
                log.emit(End(end, begin, {"outcome": "compiled"}))
        return bool(spans)


def _emit(log: Log, tuned: _Tuned, start: int, end: int, of: str | None) -> None:
    timing_from = start + tuned.compiling_ns
    for begun, ended, args in ((start, timing_from, {CHOICES: True}), (timing_from, end, {})):
        if ended > begun:
            emit_whole(log.emit, Begin(begun, "autotune", "torch", AUTOTUNE, None, args), ended)
    emit_whole(log.emit, Begin(end, "autotuned", "torch", AUTOTUNE, None, {TUNED: tuned.outcome(), "of": of}), end)


class InductorLines:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"FX codegen and compilation took ", b"fx graph cache", b"FX Graph Cache b",
                                          b"torchinductor compiling ", b"torchinductor done ")  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(self, frame: Frame, text: str, ns: int) -> bool:
        """Take in a line about a compile; whether it was one of these."""
        if match := _TOOK.match(text):
            start = max(1, ns - round(float(match["s"]) * 1e9))
            frame.start_ns = min(frame.start_ns, start)
            emit_whole(self._log.emit, Begin(start, "compile", "torch", "inductor.compile"), ns)
        elif match := _ANSWER.match(text):
            frame.compile.add_cache({"layer": FX_GRAPH, "state": match["state"], "key": match["key"]})
        elif match := _BYPASS.match(text):
            frame.compile.add_cache({"layer": FX_GRAPH, "state": "bypass", "why_text": match["why"]})
        else:
            return _STEP.match(text) is not None
        return True


class SkipLines:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (SKIPS.encode(),)

    def __init__(self) -> None:
        self._messages: list[tuple[int, list[str]]] = []
        self._left = 0

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be of the same message."""
        return self._left > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        begins = line.text.find(SKIPS)
        # and no code of PyTorch's that is quoted
        is_printed = begins >= 0 and line.text[begins - 1 : begins] in ("", " ")
        if is_printed and len(self._messages) < _MOST_SKIPS:
            self._messages.append((line.ns, [line.text[begins:]]))
            self._left = _MOST_SKIP_LINES if "Found from" in line.text else 0
            return True
        text = line.text.removeprefix("[__cudagraphs]")
        if not self._left or not text.startswith((" ", "File ")):
            self._left = 0
            return False
        self._left -= 1
        self._messages[-1][1].append(text)
        return True

    def emit(self, log: Log) -> bool:
        """Tell of each reason at each place, once; whether there are any."""
        rows = [without_a_cuda_graph("\n".join(lines), ns) for ns, lines in self._messages]
        once = {(row.text, str(row.location)): row for row in reversed(rows)}
        for row in once.values():
            log.emit(row)
        return bool(once)
