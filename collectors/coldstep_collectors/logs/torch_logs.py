"""Reads what PyTorch prints under TORCH_LOGS=recompiles,graph_breaks,dynamic: why each frame was compiled again, where
graphs broke, what became dynamic."""

from __future__ import annotations

import re
from dataclasses import field
from typing import ClassVar

from coldstep.blind_spots import BREAKS, COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import End
from coldstep.logs import Line, Log, Seen
from coldstep.slotted import slotted
from coldstep_collectors._private.torch import breaks
from coldstep_collectors.logs.frames import PASSED_THROUGH, Frame, Frames

# PyTorch 2.9, 2.13: "[0/1] [__recompiles] Recompiling function train_step in /repo/train.py:2"
# PyTorch 2.9, 2.13: "[1/0_1] [__guards] "
_TAG = re.compile(r"\[(?:!\d*/?)?(\d+)/(\d+)(?:_(\d+))?\] (?:\[(__\w+)\] ?)?")
# PyTorch 2.9, 2.13: "Recompiling function train_step in /repo/train.py:2"
_RECOMPILING = re.compile(r"Recompiling function (?P<name>.+) in (?P<file>.+):(?P<line>\d+)$")
# PyTorch 2.9, 2.13: "    - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 5"
_REASON = re.compile(r"\s+- (\d+/\d+(?:_\d+)?: .*)")
# PyTorch 2.13: "    - User stack trace:"
_MORE_OF_REASON = re.compile(r"\s+- (.*)")
_BREAKS = ("Graph break", "WON'T CONVERT")
_DUPLICATE = " (user stack suppressed due to duplicate graph break)"
# PyTorch 2.9, 2.13: "torch._dynamo hit config.recompile_limit (8)"
_LIMIT = re.compile(r"torch\._dynamo hit config\.\w+ \((\d+)\)")
# PyTorch 2.9, 2.13: "   function: 'train_step' (/repo/train.py:2)"
_LIMITED = re.compile(r"   function: '(?P<name>.+)' \((?P<file>.+):(?P<line>\d+)\)$")
# PyTorch 2.9, 2.13: "   last reason: 0/7: m == 3                    # return x * m  # /repo/train.py:6 in train_step"
_LAST_REASON = re.compile(r"   last reason: (\d+/\d+: .+)")
# PyTorch 2.9, 2.13: "create_symbol s77 = 5 for L['x'].size()[0] [2, int_oo] return x * n  # train.py:6 in f"
_SYMBOL = re.compile(r"create_symbol (\w+) = (\S+) for (.+?) \[[^\]]*\]")
# PyTorch 2.9, 2.13: "set_replacement s77 = 5 (range_refined_to_singleton) VR[5, 5]"
_REPLACED = re.compile(r"set_replacement (\w+) = -?\d+\b")
# PyTorch 2.9, 2.13: "torchdynamo start compiling train_step /repo/train.py:2, stack (elided 5 frames):"
_STARTING = re.compile(r"torchdynamo start compiling (?P<name>\S+) (?P<file>.+):(?P<line>\d+), stack ")
_RECOMPILES, _GRAPH_BREAKS = "__recompiles", "__graph_breaks"
_OF_RECOMPILES = (_RECOMPILES, "__recompiles_verbose")
_MAX_LINES = 500  # of one message

_ALWAYS = Unseen(
    "how long each phase of a compile took, and what ran: a compile is taken to last from the first line about it to "
    "the last",
    PHASES,
)
_INPUTS = Unseen("the inputs: what was not what a guard expected is known only where its words tell")
_SHORTENED = Unseen(
    "which line of the program called the library's function in which a graph broke, where both are of one name "
    "(forward): PyTorch's words leave it out (TORCH_TRACE has it)"
)
_BEFORE_A_LIMIT = Unseen("the recompiles before a limit was reached (TORCH_LOGS=recompiles tells)", RECOMPILES)
_UNSEEN = {
    _RECOMPILES: Unseen("recompiles (no line of TORCH_LOGS=recompiles: none happened, or it was off)", RECOMPILES),
    _GRAPH_BREAKS: Unseen("graph breaks (no line of TORCH_LOGS=graph_breaks: none happened, or it was off)", BREAKS),
    "dynamic": Unseen("what compiled once and never again (TORCH_LOGS=dynamic tells)", COMPILES),
}


@slotted
class _Message:
    """A text over several lines, each with the tag of its compile."""

    frame: Frame
    ns: int
    lines: list[str] = field(default_factory=list)


class TorchLogs:
    """Reads the lines of one process."""

    name: ClassVar[str] = "dynamo"
    marks: ClassVar[tuple[bytes, ...]] = (b"] [__recompiles", b"] [__graph_breaks]", b"/symbolic_shapes.py:",
                                          b"/convert_frame.py:")  # fmt: skip
    goes_on = False

    def __init__(self, log: Log) -> None:
        self._log = log
        self._frames = Frames(log)
        self._ends: dict[str, int] = {}  # when each compile was last spoken of, before another one was
        self._current: Frame | None = None
        self._started: set[str] = set()
        self._created: set[str] = set()
        self._breaking: dict[tuple[int, int], _Message] = {}
        self._stacks: dict[tuple[str, int], tuple[int, list[tuple[str, int, str]]]] = {}
        self._symbols: dict[tuple[str, str], tuple[str, str]] = {}
        self._seen: set[str] = set()

    def read(self, line: Line) -> bool:
        """Take in a line."""
        tag = _TAG.match(line.text) if line.source else None
        if tag is None:
            return False
        numbers, kind, text = (int(tag[1]), int(tag[2])), tag[4], line.text[tag.end() :]
        frame = self._frame(numbers, line.ns, kind, text, first_attempt=tag[3] is None)
        if frame is None:
            return True
        if kind in _OF_RECOMPILES:
            self._seen.add(_RECOMPILES)
            self._recompile(frame, text)
        elif kind == _GRAPH_BREAKS:
            self._seen.add(_GRAPH_BREAKS)
            self._graph_break(frame, numbers, text, line.ns)
        elif kind is None:
            self._other(frame, text)
        return True

    def end(self) -> Seen | None:
        """Emit all compiles."""
        for message in self._breaking.values():
            self._close(message)
        for frame in self._frames.known:
            begin = self._frames.open(frame, "forward", frame.start_ns)
            frame.ending.setdefault("outcome", "compiled")
            self._log.emit(End(self._ends[frame.compile.id], begin, frame.ending))
        if not self._frames.known:
            return None
        self._frames.finish()
        limited = any(frame.ending.get("outcome") == "limit" for frame in self._frames.known)
        told = _UNSEEN | ({_RECOMPILES: _BEFORE_A_LIMIT} if limited else {})
        unseen = [words for kind, words in told.items() if kind not in self._seen]
        shortened = [_SHORTENED] if self._frames.shortened else []
        return Seen("partial" if unseen else "attached", None, [*unseen, *shortened, _ALWAYS, _INPUTS])

    def _frame(
        self, numbers: tuple[int, int], ns: int, kind: str | None, text: str, first_attempt: bool
    ) -> Frame | None:
        """The compile that a line speaks of."""
        frame = self._frames.find(numbers)
        again = frame is not None and (
            (
                text.startswith("create_env")
                and first_attempt
                and numbers == (0, 0)
                and frame.compile.id in self._created
            )
            or (kind in _OF_RECOMPILES and bool(frame.failures) and _RECOMPILING.match(text) is not None)
            or (frame.compile.id in self._started and _STARTING.match(text) is not None)
        )
        if frame is None or again:
            frame = self._frames.begin(numbers, ns)
            if frame is None:
                return None
            self._current = frame
            self._ends[frame.compile.id] = ns
        elif frame is self._current:
            self._ends[frame.compile.id] = ns
        return frame

    def _recompile(self, frame: Frame, text: str) -> None:
        if match := _RECOMPILING.match(text):
            _locate(frame, match)
        elif match := _REASON.match(text):
            frame.failures.append(match[1])
        elif frame.failures and (match := _MORE_OF_REASON.match(text)):
            said = "\n" + match[1]
            if frame.failures[-1].count("\n") < _MAX_LINES:
                frame.failures[-1] += said

    def _graph_break(self, frame: Frame, numbers: tuple[int, int], text: str, ns: int) -> None:
        message = self._breaking.get(numbers)
        if text.startswith(_BREAKS):
            if message is not None:
                self._close(message)
            message = self._breaking[numbers] = _Message(frame, ns)
        if message is not None and len(message.lines) < _MAX_LINES:
            message.lines.append(text.replace(_DUPLICATE, ""))

    def _close(self, message: _Message) -> None:
        said = breaks.break_reason("\n".join(message.lines))
        if said is None:
            return
        if said.stack:
            file, line, function = said.stack[-1]
            of, stack = self._stacks.setdefault((file, line), (message.frame.numbers[0], said.stack))
            if not function:  # the same break once more: PyTorch tells only where it was
                if of != message.frame.numbers[0]:
                    return  # an echo, from the inlined function that has become a frame of its own
                said.stack = stack
        message.frame.breaks.append((message.ns, said))
        message.frame.name = message.frame.name or _outermost(said.stack)
        if said.whole_frame:
            message.frame.ending.setdefault("outcome", "skipped")

    def _other(self, frame: Frame, text: str) -> None:
        if text.startswith("create_env"):
            self._seen.add("dynamic")
            self._created.add(frame.compile.id)
            frame.tells_sizes = True
        elif match := _STARTING.match(text):
            self._started.add(frame.compile.id)
            _locate(frame, match)
        elif match := _SYMBOL.match(text):
            self._symbols[frame.compile.id, match[1]] = self._frames.add_symbol(frame, match[3], match[2])
        elif match := _REPLACED.match(text):
            if (found := self._symbols.get((frame.compile.id, match[1]))) is not None:
                self._frames.remove_symbol(frame, *found)
        elif match := _LIMIT.match(text):
            frame.ending = {"outcome": "limit", "error": match[0], "limit": int(match[1])}
        elif match := _LIMITED.match(text):
            _locate(frame, match)
        elif match := _LAST_REASON.match(text):  # this much every log tells
            frame.failures = frame.failures or [match[1]]


def _outermost(stack: list[tuple[str, int, str]]) -> str:
    """The function that was compiled where a graph broke, if it is the only one in sight: else it may be a caller's,
    or one that was inlined."""
    own = [place for place in stack if not PASSED_THROUGH.search(place[0]) and place[2] != "<module>"]
    return own[0][2] if own and own == stack[-1:] else ""


def _locate(frame: Frame, match: re.Match[str]) -> None:
    frame.file, frame.line, frame.name = match["file"], int(match["line"]), match["name"]
