"""Reads what PyTorch prints under TORCH_LOGS=recompiles,graph_breaks,dynamic: why each frame was compiled again, where
graphs broke, what became dynamic."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.slotted import field, slotted
from coldstep.blind_spots import BEGUN, BREAKS, COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import End
from coldstep.logs import Line, Log, Seen
from coldstep_collectors.torch._private import breaks
from coldstep_collectors.torch.bare_logs import BareLines
from coldstep_collectors.torch.error_logs import (
    MARKS_OF_BUILTINS,
    NO_ERROR,
    Errors,
    Failure,
    builtin_in,
    is_told_of,
    tell_of_builtins,
)
from coldstep_collectors.torch.inductor_log import AutotuneLines, InductorLines, SkipLines
from coldstep_collectors.torch.log_frames import Frame, Frames, passed_through
from coldstep_collectors.torch.log_lines import Words, take_apart
from coldstep_collectors.torch.vllm_log import VllmLines

# PyTorch 2.9, 2.13: "Recompiling function train_step in /repo/train.py:2"
# PyTorch 2.1, nightly: "Recompiling function step in /repo/train.py:0"
# PyTorch 2.2: "Recompiling function train_step in"
_RECOMPILING = re.compile(r"Recompiling function (?P<name>.+?) in(?:$| (?:(?P<file>.+):(?P<line>\d+)$)?)")
# PyTorch 2.9, 2.13: "    - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 5"
# PyTorch 2.4: "    - tensor 'L['x']' size mismatch at index 0. expected 4, actual 6"
# PyTorch 2.13: "    - User stack trace:"
# A page: "- 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 5"
_REASON = re.compile(r"\s*- (?P<text>(?P<variant>\d+/\d+(?:_\d+)?:)?.*)")
_BREAKS = ("Graph break", "WON'T CONVERT")
_WARNED, _READS = "Graph break: from user code at:", "Graph break: Tensor.item from user code at:"
_WARNING = "Graph break from `Tensor.item()`, consider setting:"
_WARNS = "variables/tensor.py:"
"""Where PyTorch warns, with no setting at all, of a value that is read on the host."""
_DUPLICATE = " (user stack suppressed due to duplicate graph break)"
# PyTorch 2.9, 2.13: "torch._dynamo hit config.recompile_limit (8)"
_LIMIT = re.compile(r"torch\._dynamo hit config\.\w+ \((\d+)\)")
# PyTorch 2.9, 2.13: "   function: 'train_step' (/repo/train.py:2)"
_LIMITED = re.compile(r"\s{0,3}function: '(?P<name>.+)' \((?P<file>.+):(?P<line>\d+)\)$")
# PyTorch 2.9, 2.13: "   last reason: 0/7: m == 3                    # return x * m  # /repo/train.py:6 in train_step"
# PyTorch 2.4: "   last reason: tensor 'L['x']' size mismatch at index 0. expected 2, actual 5"
# PyTorch 2.0: "   reasons:  ["tensor 'x' strides mismatch at index 0. expected 562500, actual 2447991"]"
# PyTorch 2.0: "   reasons:  ___check_obj_id(past_key_values, 94636661886208)"
_LAST_REASON = re.compile(
    r"\s{0,3}(?:last reason: |reasons:  (?:\[(?P<quote>[\"']))?)(?P<text>.+?)(?(quote)(?P=quote)\])$"
)
# PyTorch 2.9, 2.13: "To log all recompilation reasons, use TORCH_LOGS="recompiles"."
# PyTorch 2.1: "to diagnose recompilation issues, set env variable TORCHDYNAMO_REPORT_GUARD_FAILURES=1 and also see"
# PyTorch 2.9, 2.13: "   last reason: 0/7: m == 3"
_OF_LIMIT = re.compile(r"\s{0,3}(?:function: '|last reason: |reasons:  )|[Tt]o (?:log all|diagnose) recompilation")
# PyTorch 2.9, 2.13: "function: 'train_step' (/repo/train.py:2)"
_BROKEN_OFF = re.compile(r"\s{0,2}(?:function: '|last reason: )")
# PyTorch 2.1: "WON'T CONVERT score /repo/train.py line 124 "
_UNCONVERTED = re.compile(r"WON'T CONVERT (?P<name>\S+) (?P<file>.+) line (?P<line>\d+)")
# PyTorch 2.1: "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"
_ERROR = re.compile(r"(?:[\w.]+\.)?(?P<error>\w*(?:Error|Exception|Failed|Unsupported)\w*: .+)")
# PyTorch 2.4: "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"
_GIVEN_UP = re.compile(r"torch\._(?:dynamo|inductor)\.exc\.(?P<error>\w{1,99}: .+)")
_GIVES_UP = "/convert_frame.py:"
# PyTorch 2.8: "  File "/venv/torch/_dynamo/convert_frame.py", line 1059, in _compile"
# PyTorch 2.9: "  File "/venv/torch/_dynamo/repro/after_dynamo.py", line 150, in __call__"
_IN_DYNAMO = re.compile(r'\s*File "[^"]{1,1000}[\\/]torch[\\/]_dynamo[\\/][\w\\/]{1,99}\.py", line \d')
# PyTorch 2.6: "  File "/repo/train.py", line 944, in step"
_IN_STACK = re.compile(r'\s{2}File "')
# Python: "AssertionError:"
_CAUSE = re.compile(r"(?P<error>\w*(?:Error|Exception)):$")
# PyTorch 2.9, 2.13: "create_symbol s77 = 5 for L['x'].size()[0] [2, int_oo] return x * n  # train.py:6 in f"
# PyTorch 2.1: "create_symbol s0 = 6 for L['x'].size()[1]"
_SYMBOL = re.compile(r"create_symbol (\w+) = (\S+) for (.+?)(?: \[[^\]]*\]|$)")
# PyTorch 2.4: "eval Eq(s0, 4) [guard added] at train.py:111 in pinned (_subclasses/fake_impls.py:1016 in infer_size)"
# PyTorch 2.13: "eval Eq(s1, 4) [guard added] y = t.f()  # swap.py:19 in g (_subclasses/fake_impls.py:1178 in size)"
_PINNED = re.compile(r"eval Eq\((?P<symbol>\w+), (?P<value>\d+)\) \[guard added\] (?P<where>.*?:\d+ in [^\s,]+)")
# PyTorch 2.9, 2.13: "set_replacement s77 = 5 (range_refined_to_singleton) VR[5, 5]"
_REPLACED = re.compile(r"set_replacement (\w+) = -?\d+\b")
# PyTorch 2.9, 2.13: "torchdynamo start compiling train_step /repo/train.py:2, stack (elided 5 frames):"
_STARTING = re.compile(r"torchdynamo start compiling (?P<name>\S+) (?P<file>.+):(?P<line>\d+), stack ")
# PyTorch 2.0: "Step 1: torchdynamo start tracing generate"
# PyTorch 2.1, 2.8: "Step 1: torchdynamo start tracing fn /repo/train.py:3"
_TRACING = re.compile(r"Step 1: torchdynamo start tracing (?P<name>[\w.]+)(?: (?P<file>.+):(?P<line>\d+))?$")
# PyTorch 2.1, 2.3: "Step 1: torchdynamo done tracing fn (RETURN_VALUE)"
_TRACED = re.compile(r"Step 1: torchdynamo done tracing (?P<name>[\w.]+)")
_OF_DYNAMO = ("FAILED INLINING ", "run_gc_after_compile", "TRACE ")
"""Of lines that Dynamo prints on each compile, where it prints them at all."""
_GUARDS_FAIL = "Error while creating guard:"
_TRACEBACK = "Traceback (most recent call last)"
_ENVIRONMENT, _GUARDS = "create_env", "produce_guards"
_RECOMPILES, _GRAPH_BREAKS = "__recompiles", "__graph_breaks"
# PyTorch 2.9, 2.13: "0/1: m == 3"
_NUMBERED = re.compile(r"\d+/\d+(?:_\d+)?:")
_OF_RECOMPILES = (_RECOMPILES, "__recompiles_verbose")
_MAX_LINES = 500  # of one message
_LOST = "not in the log: the lines with the reason are lost"

_ALWAYS = Unseen(
    "how long each phase of a compile took, and what ran: a compile is taken to last from the first line about it to "
    "the last",
    PHASES,
)
_INPUTS = Unseen("the inputs: a value that a guard did not expect is known only where its words show it")
_SHORTENED = Unseen(
    "which line of the program called the library's function in which a graph broke, where both are of one name "
    "(forward): PyTorch's words leave it out (TORCH_TRACE has it)"
)
_OLDER = Unseen("which function has reached its limit: the next line of the log is lost")
_BEFORE_A_LIMIT = Unseen("the recompiles before a limit was reached (TORCH_LOGS=recompiles shows them)", RECOMPILES)
_UNWARNED = Unseen("graph breaks of which PyTorch does not warn (TORCH_LOGS=graph_breaks shows them)", BREAKS)
_UNSEEN = {
    _RECOMPILES: Unseen("recompiles (no line of TORCH_LOGS=recompiles: none happened, or it was off)", RECOMPILES),
    _GRAPH_BREAKS: Unseen("graph breaks (no line of TORCH_LOGS=graph_breaks: none happened, or it was off)", BREAKS),
    "dynamic": Unseen("functions that compiled once and never again (TORCH_LOGS=dynamic shows them)", COMPILES),
}


@slotted
class _Message:
    """A text over several lines, each with the tag of its compile."""

    frame: Frame
    ns: int
    lines: list[str] = field(default_factory=list)
    warns: bool = False
    """Whether it is PyTorch's warning, which its log of graph breaks repeats where that is on."""

    @property
    def is_warning_alone(self) -> bool:
        """Whether it has no stack: in 2.5 and later it follows the warning."""
        return self.warns and not any(line.startswith("  File ") for line in self.lines)


class TorchLogs:
    """Reads the lines of one process."""

    name: ClassVar[str] = "dynamo"
    marks: ClassVar[tuple[bytes, ...]] = (b"[__recompiles", b"[__graph_breaks]", b"symbolic_shapes.py:",
                                          _WARNS.encode(), b"variables\\tensor.py:", b"convert_frame.py:",
                                          b"torch._dynamo.", *BareLines.MARKS, *Errors.MARKS,
                                          *VllmLines.MARKS, *AutotuneLines.MARKS, *InductorLines.MARKS,
                                          b"Error while creating guard:", *SkipLines.MARKS,
                                          *MARKS_OF_BUILTINS,
                                          b"torchdynamo start ", b"torchdynamo done tracing ",
                                          b"torch.fx.experimental.symbolic_shapes: ")  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log
        self._frames = Frames(log)
        self._ends: dict[str, int] = {}  # when each compile was last spoken of, before another one was
        self._current: Frame | None = None
        self._unnumbered: Frame | None = None
        """The last compile that was spoken of without its numbers: PyTorch 2.4 and older do so."""
        self._hit: re.Match[str] | None = None
        """The limit that a compile without numbers has hit, until its function is named."""
        self._started: set[str] = set()
        self._announced: set[str] = set()
        self._detailed: set[str] = set()
        self._created: dict[str, str] = {}
        self._breaking: dict[tuple[int, int], _Message] = {}
        self._warned: list[breaks.BreakReason] = []
        self._builtins: dict[str, tuple[int, Frame | None]] = {}
        """What PyTorch has warned of unasked, and when; the compile amid which, where the log shows it."""
        self._broke: set[str] = set()
        """The errors that graphs broke at: a second handler repeats them without a stamp, and nothing has failed."""
        self._traced: set[tuple[str | None, str]] = set()
        """The functions that were traced by the words of lines without numbers."""
        self._stacks: dict[tuple[str, int], tuple[int, list[tuple[str, int, str]]]] = {}
        self._symbols: dict[tuple[str, str], tuple[str, str]] = {}
        self._bare, self._inductor = BareLines(), InductorLines(log)
        self._errors, self._vllm, self._tuned = Errors(), VllmLines(), AutotuneLines()
        self._skips = SkipLines()
        self._log_ns = 0
        self._shows_begins = False
        """Whether each compile has a line at its begin: what is printed then is of the last one."""
        self.goes_on = self._warns = self._gives_up = False
        self._seen: set[str] = set()

    def read(self, line: Line) -> bool:
        """Take in a line."""
        source = line.source.replace("\\", "/")
        self._warns, self._gives_up = _WARNS in source, _GIVES_UP in source
        if warned := builtin_in(line.text):
            self._builtins.setdefault(warned, (line.ns, self._current if self._shows_begins else None))
            return True
        pieces = take_apart(line)
        if not pieces and not line.source:
            pieces = self._bare.take(line.text)
            self._warns = self._bare.warns and any(words.kind == _GRAPH_BREAKS for words in pieces)
        if len(pieces) > 1 and pieces[0].kind == _GRAPH_BREAKS:
            self._bare.go_on_with_break()
        taken = [self._read(words, line.ns) for words in pieces].count(True) > 0
        taken |= self._errors.read(line) or self._vllm.read(line) or self._tuned.read(line)
        taken |= self._skips.read(line)
        self.goes_on = self._bare.goes_on or self._errors.goes_on or self._vllm.goes_on or self._tuned.goes_on
        self.goes_on |= self._skips.goes_on
        return taken

    def _read(self, words: Words, ns: int) -> bool:
        if words.numbers is not None:
            frame = self._frame(words, ns)
        else:
            frame = self._broken_off(words) or self._frame_without_numbers(words, ns)
        if frame is None:
            return words.numbers is not None or words.kind in _OF_RECOMPILES or self._hit is not None
        if words.kind in _OF_RECOMPILES:
            self._seen.add(_RECOMPILES)
            self._recompile(frame, words.text)
        elif words.kind == _GRAPH_BREAKS:
            self._seen |= set() if self._warns else {_GRAPH_BREAKS}
            if (given_up := _GIVEN_UP.match(words.text)) is not None:
                self._broke.add(given_up["error"])
            self._graph_break(frame, words.text, ns)
        elif words.kind is None and self._warns:
            self._graph_break(frame, words.text.replace(_WARNED, _READS).replace(_WARNING, _READS), ns)
        elif words.kind is None and not self._inductor.read(frame, words.text, ns):
            self._other(frame, words.text)
        return True

    def end(self) -> Seen | None:
        """Emit all compiles."""
        older = [_OLDER] if self._hit is not None else []
        if self._hit is not None:
            self._begin_without_numbers(None, self._log_ns)
        for message in self._breaking.values():
            self._close(message)
        if not self._frames.known:
            return None
        warned = self._break_at_builtins() or bool(self._warned)
        failed = (failure for failure in self._errors.end() if failure.ending["error"] not in self._broke)
        failures = [failure for failure in failed if not self._is_of_frame(failure)]
        for frame in self._frames.known:
            if frame.again and not frame.failures:
                frame.failures = [_LOST]
            begin = self._frames.open(frame, "forward", frame.start_ns)
            frame.ending.setdefault("outcome", "compiled")
            if frame.ending["outcome"] == "failed":
                frame.ending["error"] = frame.ending["error"] or NO_ERROR
            self._log.emit(End(self._ends[frame.compile.id], begin, frame.ending))
        for failure in failures:
            failure.emit(self._log)
        self._vllm.emit(self._log)
        self._tuned.emit(self._log, has_compiles=True)
        self._skips.emit(self._log)
        self._frames.finish()
        limited = any(frame.ending.get("outcome") == "limit" for frame in self._frames.known)
        missing = _UNSEEN | ({_RECOMPILES: _BEFORE_A_LIMIT} if limited else {})
        missing |= {_GRAPH_BREAKS: _UNWARNED} if warned else {}
        unseen = [words for kind, words in missing.items() if kind not in self._seen]
        unseen += [BEGUN] if self._is_begun() else []
        shortened = [_SHORTENED] if self._frames.shortened else []
        return Seen("partial" if unseen else "attached", None, [*older, *unseen, *shortened, _ALWAYS, _INPUTS])

    def _break_at_builtins(self) -> bool:
        """Take what was warned of for graph breaks, where neither TORCH_LOGS=graph_breaks nor an error tells of it."""
        errors = [failure.ending["error"] for failure in self._errors.failures]
        errors += [frame.ending.get("error", "") for frame in self._frames.known]
        if _GRAPH_BREAKS in self._seen:
            return False
        others: dict[str, int] = {}
        known = False
        for words, (ns, frame) in self._builtins.items():
            if frame is None:
                others[words] = ns
            elif not is_told_of(words, errors):
                frame.breaks.append((ns, breaks.BreakReason(words, [], [], whole_frame=False)))
                known = True
        return tell_of_builtins(self._log, others, errors) or known

    def _is_of_frame(self, failure: Failure) -> bool:
        """Whether an error is that of a compile which the log has told of: then it is the end of that compile."""
        known = [frame for frame in self._frames.known if frame.ending.get("outcome") == "limit"]
        if not failure.is_limit:
            last = self._frames.known[-1]
            is_told = last.compile.id in self._started | self._detailed or last.compile.id in self._created
            is_named = failure.compiled == (last.file, last.name) or failure.is_of_recompile(last.name)
            known = [last] if not last.ending and (is_named or (is_told and failure.compiled is None)) else []
        for frame in known[-1:]:
            if failure.is_limit:
                frame.ending["error"] += f"; {failure.ending['error'].partition('. ')[0]}"
            else:
                frame.ending = failure.ending
        return bool(known)

    def _is_begun(self) -> bool:
        """Whether the log lacks compiles of a frame that came before those that it tells of. With TORCH_LOGS=recompiles
        alone that is so of each frame's first one."""
        first = 0 if "dynamic" in self._seen else 1
        lowest: dict[tuple[int, int], int] = {}
        for frame in self._frames.known:
            lowest.setdefault((frame.epoch, frame.numbers[0]), frame.numbers[1])
        return any(number > first for (_, frame), number in lowest.items() if frame >= 0)

    def _frame(self, words: Words, ns: int) -> Frame | None:
        """The compile that a line speaks of."""
        assert words.numbers is not None
        frame = self._frames.find(words.numbers)
        if frame is None or self._is_another(frame, words):
            if (frame := self._adopted(words.numbers) or self._frames.begin(words.numbers, ns)) is None:
                return None
            self._current = frame
            self._ends[frame.compile.id] = ns
        elif frame is self._current:
            self._ends[frame.compile.id] = ns
        return frame

    def _is_another(self, frame: Frame, words: Words) -> bool:
        """Whether a line speaks of a compile of the same numbers as `frame`'s, after a reset."""
        if words.kind in _OF_RECOMPILES:
            return frame.compile.id in self._announced and _RECOMPILING.match(words.text) is not None
        if frame.compile.id in self._started and _STARTING.match(words.text) is not None:
            return True
        begun = self._created.get(frame.compile.id)
        return begun is not None and words.first_attempt and words.numbers == (0, 0) and words.text.startswith(begun)

    def _adopted(self, numbers: tuple[int, int]) -> Frame | None:
        """A recompile that was told of without its numbers, where these are the next ones that can be its own."""
        frame, self._unnumbered = self._unnumbered, None
        if frame is None or numbers[1] == 0 or frame.ending or frame.numbers[0] >= 0:
            return None
        self._frames.number(frame, numbers)
        return frame

    def _broken_off(self, words: Words) -> Frame | None:
        """The compile whose limit a line without numbers goes on with, where what shows the log breaks lines behind
        their stamp."""
        last = self._current
        if last is None or words.kind is not None or last.ending.get("outcome") != "limit":
            return None
        known = last.name if _LIMITED.match(words.text) else last.failures if _LAST_REASON.match(words.text) else ""
        return last if _OF_LIMIT.match(words.text) and not known else None

    def _frame_without_numbers(self, words: Words, ns: int) -> Frame | None:
        """The compile that a line without numbers speaks of; None where it speaks of none, or its words come next."""
        if _BROKEN_OFF.match(words.text):  # of a warning whose begin is not in the log
            return None
        self._log_ns = ns
        match = _RECOMPILING.match(words.text) if words.kind in _OF_RECOMPILES else None
        reason = _REASON.match(words.text) if words.kind in _OF_RECOMPILES else None
        if reason is not None and self._is_of_another(reason["variant"]):
            return self._begin_again(ns)
        if match is not None or (words.kind == _GRAPH_BREAKS and words.text.startswith(_BREAKS)):
            return self._begin_without_numbers(match, ns)
        if words.kind is None:
            if limit := _LIMIT.match(words.text):
                self._hit = limit
                return None
            if (match := _TRACING.match(words.text)) is not None:
                return self._begin_tracing(match, ns)
            match = _LIMITED.match(words.text) or _UNCONVERTED.match(words.text)
            if match is not None and not self._is_of_last(match):
                return self._begin_without_numbers(match, ns)
            if match is not None and self._unnumbered is not None and self._hit is not None:
                self._refuse(self._unnumbered, self._hit)
            is_given_up = self._gives_up and (_GIVEN_UP.match(words.text) or _IN_DYNAMO.match(words.text))
            if self._unnumbered is None and (is_given_up or _OF_LIMIT.match(words.text)):
                return self._begin_without_numbers(None, ns)
        return self._unnumbered

    def _is_of_another(self, variant: str | None) -> bool:
        """Whether a reason is none of the recompile that was last begun: it names another function's frame."""
        if self._unnumbered is None:
            return True
        last = _NUMBERED.match(self._unnumbered.failures[-1]) if self._unnumbered.failures else None
        return bool(variant and last and last[0].partition("/")[0] != variant.partition("/")[0])

    def _begin_again(self, ns: int) -> Frame | None:
        """A recompile whose reasons are in the log, and whose begin is lost."""
        if (frame := self._begin_without_numbers(None, ns)) is not None:
            frame.again = True
        return frame

    def _begin_tracing(self, place: re.Match[str], ns: int) -> Frame | None:
        """The compile of the function at a place: where it is named once more, this may be an attempt, or another."""
        last, where = self._unnumbered, (place["file"], place["name"])
        if where not in self._traced and (last is None or last.name != place["name"]):
            last = self._begin_without_numbers(place, ns)
        self._traced.add(where)
        return last

    def _is_of_last(self, place: re.Match[str]) -> bool:
        """Whether what is told of this function is told of the last compile without numbers, which had no end yet."""
        last = self._unnumbered
        return last is not None and (last.file, last.name) == (place["file"], place["name"]) and not last.ending

    def _begin_without_numbers(self, place: re.Match[str] | None, ns: int) -> Frame | None:
        where = (place["file"] or "", int(place["line"] or 0), place["name"]) if place is not None else ("", 0, "")
        frame = self._unnumbered = self._frames.begin_without_numbers(where, ns)
        if frame is not None:
            self._ends[frame.compile.id] = ns
            if self._hit is not None:
                self._refuse(frame, self._hit)
        return frame

    def _recompile(self, frame: Frame, text: str) -> None:
        if match := _RECOMPILING.match(text):
            self._announced.add(frame.compile.id)
            frame.again = True
            _locate(frame, match)
        elif text.startswith("Recompiling "):  # cut amid the function's name
            frame.again = True
        elif match := _REASON.match(text):
            # from 2.5 on each reason begins with the variant's numbers, and what follows belongs to it
            if match["variant"] or not any(map(_NUMBERED.match, frame.failures)):
                frame.failures.append(match["text"])
                self._number(frame, match["variant"])
            elif frame.failures[-1].count("\n") < _MAX_LINES:
                frame.failures[-1] += f"\n{match['text']}"

    def _number(self, frame: Frame, earlier: str | None) -> None:
        """Of a recompile that was told of without its numbers: the latest earlier variant, which is told of first, has
        the number before its own."""
        if frame.numbers[0] < 0 and earlier is not None:
            number, variant = map(int, re.findall(r"\d+", earlier)[:2])
            self._frames.number(frame, (number, variant + 1))

    def _graph_break(self, frame: Frame, text: str, ns: int) -> None:
        message = self._breaking.get(frame.numbers)
        if message is None and (given_up := _GIVEN_UP.match(text)):  # its begin is lost
            text = f"Graph break: {given_up['error'].partition(': ')[2]} from user code at:"
        elif message is None and _IN_STACK.match(text):  # likewise
            message = self._breaking[frame.numbers] = _Message(frame, ns, [_WARNED])
            message.lines += [f"{_TRACEBACK}:"] * (_IN_DYNAMO.match(text) is not None)
        if text.startswith(_READS if self._warns else _BREAKS):
            if message is not None and not message.is_warning_alone:
                self._close(message)
            message = self._breaking[frame.numbers] = _Message(frame, ns, warns=self._warns)
        if message is not None and len(message.lines) < _MAX_LINES:
            message.lines.append(text.replace(_DUPLICATE, ""))

    def _close(self, message: _Message) -> None:
        if (reason := breaks.break_reason("\n".join(message.lines))) is None:
            return
        reason.reason = reason.reason or _LOST
        if message.warns:
            self._warned.append(reason)
        else:
            repeats = [known for known in self._warned if known.stack[-1:] == reason.stack[-1:]]
            message.frame.breaks = [row for row in message.frame.breaks if row[1] not in repeats]
        if reason.stack:
            file, line, function = reason.stack[-1]
            of, stack = self._stacks.setdefault((file, line), (message.frame.numbers[0], reason.stack))
            if not function:  # the same break once more: PyTorch tells only where it was
                if of != message.frame.numbers[0]:
                    return  # an echo, from the inlined function that has become a frame of its own
                reason.stack = stack
        message.frame.breaks.append((message.ns, reason))
        message.frame.name = message.frame.name or _outermost(reason.stack)
        if reason.whole_frame:
            message.frame.ending.setdefault("outcome", "skipped")

    def _other(self, frame: Frame, text: str) -> None:
        if text.startswith((_ENVIRONMENT, _GUARDS)):
            self._seen.add("dynamic")
            self._shows_begins = True
            # PyTorch 2.4 says the first without the numbers; some say the second several times
            self._created.setdefault(frame.compile.id, _ENVIRONMENT if text.startswith(_ENVIRONMENT) else _GUARDS)
            frame.tells_sizes = True
        elif match := _STARTING.match(text):
            self._started.add(frame.compile.id)
            self._shows_begins = True
            _locate(frame, match)
        elif match := _TRACING.match(text):
            self._shows_begins = True
            if not frame.file:
                _locate(frame, match)
        elif match := _TRACED.match(text):
            frame.name = frame.name or match["name"]
        elif match := _SYMBOL.match(text):
            self._symbols[frame.compile.id, match[1]] = self._frames.add_symbol(frame, match[3], match[2])
        elif match := _REPLACED.match(text):
            self._pin(frame, match[1])
        elif text.startswith(_OF_DYNAMO):
            self._detailed.add(frame.compile.id)
        elif match := _PINNED.match(text):
            self._pin(frame, match["symbol"], match["where"], match["value"])
        else:
            self._on_warning(frame, text)

    def _pin(self, frame: Frame, symbol: str, where: str | None = None, value: str = "") -> None:
        """A symbol turns out to have one value only, since a line of the program asks for it."""
        if (entry := self._symbols.get((frame.compile.id, symbol))) is not None:
            self._frames.remove_symbol(frame, *entry)
            if where is not None:
                frame.pinned[entry] = where.removeprefix("at ")
        elif where is not None and symbol[:1] == "s":  # what it stands for is lost
            frame.pinned[f"{symbol} ({value})", "value"] = where.removeprefix("at ")

    def _on_warning(self, frame: Frame, text: str) -> None:
        if match := _LIMIT.match(text):
            self._refuse(frame, match)
        elif text == _GUARDS_FAIL:
            frame.ending = {"outcome": "failed", "error": ""}
        elif match := _UNCONVERTED.match(text):
            _locate(frame, match)
            frame.ending = {"outcome": "failed", "error": ""}
        elif frame.ending.get("outcome") == "failed":
            match = _ERROR.match(text)
            match = match or _CAUSE.match(text)
            if match is not None or text.startswith(_TRACEBACK):  # of errors that caused one another, the last
                words = (frame.ending["error"], match["error"]) if match is not None else ()
                frame.ending["error"] = " ".join(filter(None, words))
        elif self._gives_up and not frame.ending and (match := _GIVEN_UP.match(text)):  # the begin is lost
            frame.ending = {"outcome": "failed", "error": match["error"]}
        elif self._gives_up and not frame.ending and frame.numbers[0] < 0 and _IN_DYNAMO.match(text):
            frame.ending = {"outcome": "failed", "error": ""}
        elif _OF_LIMIT.match(text):
            if frame.ending.get("outcome") != "limit":  # a part of the warning: its first line is lost
                allowed = {"limit": frame.numbers[1]} if frame.numbers[1] > 0 <= frame.numbers[0] else {}
                frame.ending = {"outcome": "limit", "error": text.strip()} | allowed
            if match := _LIMITED.match(text):
                _locate(frame, match)
            elif match := _LAST_REASON.match(text):  # this much every log tells
                frame.failures = frame.failures or [match["text"]]

    def _refuse(self, frame: Frame, limit: re.Match[str]) -> None:
        frame.ending = {"outcome": "limit", "error": limit[0], "limit": int(limit[1])}
        self._hit = None


def _outermost(stack: list[tuple[str, int, str]]) -> str:
    """The function that was compiled where a graph broke, if it is the only one in sight: else it may be a caller's,
    or one that was inlined."""
    own = [place for place in stack if not passed_through(place[0]) and place[2] != "<module>"]
    return own[0][2] if own and own == stack[-1:] else ""


def _locate(frame: Frame, match: re.Match[str]) -> None:
    frame.file, frame.line, frame.name = match["file"] or "", int(match["line"] or 0), match["name"]
