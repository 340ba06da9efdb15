"""Reads the frames that Dynamo compiles from a PyTorch log, in the words of the collector `dynamo`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from coldstep import context as forms
from coldstep._util.slotted import field, slotted_object
from coldstep.events import NOTHING, Args, Begin, GraphBreak
from coldstep.logs import Log
from coldstep.places import is_installed, location, with_slashes
from coldstep_collectors.log_definitions import Parameters, parameters
from coldstep_collectors.torch._private import breaks, caches
from coldstep_collectors.torch._private.breaks import BreakReason
from coldstep_collectors.torch._private.cache_keys import Components
from coldstep_collectors.torch._private.scope import looked_at
from coldstep_collectors.torch._private.spans import Compile
from coldstep_collectors.torch.collector import Epochs, is_loaded
from coldstep_collectors.torch.graph_breaks import Breaks, about_break

# PyTorch 2.9, 2.13: "/repo/.venv/lib/python3.11/site-packages/torch/nn/modules/module.py"
_PASSED_THROUGH = re.compile(r"/torch/|/coldstep|runpy")

# PyTorch 2.9, 2.13: "L['x']"
_LOCAL = re.compile(r"^L\['([A-Za-z_]\w*)'\]")
_WRAPPER = "inner"
# PyTorch 2.9, 2.13: "kwargs['mask']"
_KEYWORD = re.compile(r"^kwargs\['(\w+)'\]")
# PyTorch 2.9, 2.13: "batch['x']"
_ROOT = re.compile(r"[A-Za-z_]\w*")
# PyTorch 2.9, 2.13: "L['x'].size()[0]"
_SIZE = re.compile(r"(.+)\.size\(\)\[(\d+)\]")
_FUNCTION_OF_WRAPPER = "a function handed to torch.compile"


@slotted_object
class Frame:
    """A frame's compile, as far as the log has shown it by now."""

    compile: Compile
    numbers: tuple[int, int]
    epoch: int
    start_ns: int
    file: str = ""
    line: int = 0
    name: str = ""
    stack: list[tuple[str, int, str]] = field(default_factory=list)
    """Those below it, as far as the log shows, outermost first."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Types, by the path as PyTorch writes it: "L['x']"."""
    values: dict[str, str] = field(default_factory=dict)
    """Values elsewhere in reach of the guards, likewise."""
    objects: dict[str, str] = field(default_factory=dict)
    """Which of what the guards look at are Python modules, slices or ranges, likewise."""
    modes: dict[str, str] = field(default_factory=dict)
    open_sizes: dict[str, list[str]] = field(default_factory=dict)
    """The sizes and values that the graph leaves open, as the collector writes them."""
    tells_sizes: bool = False
    """Whether the log would have shown them."""
    again: bool = False
    """Whether PyTorch has called this a recompile."""
    pinned: dict[tuple[str, str], str] = field(default_factory=dict)
    """Which line of the program has made what of a path a constant, by the path and the dimension, or "value"."""
    failures: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    """Where the guards that failed look: the values at other places do not matter."""
    breaks: list[tuple[int, BreakReason]] = field(default_factory=list)
    failed_in: list[tuple[str, int, str]] = field(default_factory=list)
    """Where the compile failed, from the compiled function on."""
    failure: BreakReason | None = None
    """What the compile failed of, where that is a graph break that may not be, or like one."""
    begins: list[Begin] = field(default_factory=list)
    """Its segments, emitted as they came; their names and arguments are filled in when all is known."""
    trains: bool = False
    """Whether a backward goes with its graph."""
    ending: Args = field(default_factory=dict)
    """The arguments of their ends."""

    def hear_of_cache(self, name: str, metadata: Mapping[str, Any], components: Components) -> None:
        """A PyTorch instant, which may be about a cache on disk."""
        if (answer := caches.cache_answer(name, metadata, components)) is not None:
            self.compile.add_cache(answer)
            self.trains |= caches.is_training(metadata)

    def explain(self, reasons: list[str]) -> None:
        """PyTorch has given the reason why each earlier variant was not good enough."""
        self.failures = reasons
        self.asked = {path for reason in reasons for path in looked_at(reason)}


def passed_through(file: str) -> bool:
    """Whether a file is one of those whose functions nobody has compiled: they call the compiled ones."""
    return _PASSED_THROUGH.search(with_slashes(file)) is not None


def in_words(path: str) -> str:
    """A path as guards print it: locals by their names alone."""
    return _LOCAL.sub(r"\1", path)


class Frames:
    """The compiles of one process, in the order in which they began."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._epochs = Epochs()
        self._breaks = Breaks()
        self.known: list[Frame] = []
        self.components = Components()
        """Of caches' keys: what has been said of them."""
        self._latest: dict[tuple[int, int], Frame] = {}
        self._unnumbered: dict[tuple[str, int, str], list[Frame]] = {}
        self.shortened = False
        """Whether a break's stack may lack some of the user's own functions."""

    def find(self, numbers: tuple[int, int]) -> Frame | None:
        """The latest compile with these numbers since the last reset."""
        return self._latest.get(numbers)

    def open(self, frame: Frame, part: str, ns: int) -> Begin:
        """A segment of a compile begins."""
        begin = Begin(ns, "", "torch", None, frame.compile.id, {"part": part})
        frame.begins.append(begin)
        self._log.emit(begin)
        return begin

    def begin(self, numbers: tuple[int, int], ns: int) -> Frame | None:
        """A compile begins; None where there are too many already."""
        epoch = self._epochs.of(numbers)
        if self.known and epoch != self.known[-1].epoch:
            self._latest.clear()  # the numbers begin again, for other frames
        if (id := self._log.new_compile()) is None:
            self._latest.pop(numbers, None)
            return None
        frame = Frame(Compile(id, "", ("", "")), numbers, epoch, ns)
        self.known.append(frame)
        self._latest[numbers] = frame
        return frame

    def begin_without_numbers(self, place: tuple[str, int, str], ns: int) -> Frame | None:
        """A compile of the function at a place begins, which PyTorch has given no numbers."""
        if (id := self._log.new_compile()) is None:
            return None
        whose = place if place[2] else ("", len(self.known), "")  # each that is not named is of one function of its own
        alike = self._unnumbered.setdefault(whose, [])
        index = [*self._unnumbered].index(whose)
        frame = Frame(Compile(id, "", ("", "")), (-1 - index, len(alike)), self._epochs.of(None), ns, *place)
        alike.append(frame)
        self.known.append(frame)
        return frame

    def number(self, frame: Frame, numbers: tuple[int, int]) -> None:
        """The numbers of a compile that had none are known."""
        frame.numbers, frame.epoch = numbers, self._epochs.of(numbers)
        self._latest[numbers] = frame

    def add_symbol(self, frame: Frame, source: str, value: str) -> tuple[str, str]:
        """The graph holds `source` as a symbol; its value now is known. Returns what `remove_symbol` takes."""
        path, what = self.symbol(source)
        if what == "value":
            frame.values[path] = value
        if what not in (kinds := frame.open_sizes.setdefault(path, [])):
            kinds.append(what)
        return path, what

    def symbol(self, source: str) -> tuple[str, str]:
        """The path of what a symbol stands for, and the dimension, or "value" for a number."""
        size = _SIZE.fullmatch(source)
        return (in_words(size[1]), size[2]) if size else (in_words(source), "value")

    def remove_symbol(self, frame: Frame, path: str, what: str) -> None:
        """The symbol turned out to have one value only."""
        kinds = frame.open_sizes.get(path, [])
        if what in kinds:
            kinds.remove(what)
        if not kinds:
            frame.open_sizes.pop(path, None)

    def finish(self) -> None:
        """All is known: complete the segments of each compile, and emit its graph breaks."""
        names = self._names()
        numbers: dict[tuple[object, ...], dict[int, int]] = {}
        for frame in self.known:
            file, line, name = names.get((frame.epoch, frame.numbers[0]), (frame.file, frame.line, frame.name))
            alike = numbers.setdefault((frame.epoch, file, line, name), {})
            self._finish(frame, file, line, name, alike.setdefault(frame.numbers[0], len(alike)))

    def _names(self) -> dict[tuple[int, int], tuple[str, int, str]]:
        """Where the code of each frame is, by epoch and number: what one of its compiles tells is true of all."""
        named = sorted((frame for frame in self.known if frame.name), key=lambda frame: frame.file != "")
        return {(frame.epoch, frame.numbers[0]): (frame.file, frame.line, frame.name) for frame in named}

    def _finish(self, frame: Frame, file: str, line: int, name: str, number: int) -> None:
        compile = frame.compile
        compile.frame = file, name
        self._breaks.compiling(compile.frame)
        about = self._about(frame, file, line, name, number)
        for ns, reason in frame.breaks:
            self._complete_stack(frame, reason)
            if (known := self._breaks.found(compile, reason)) is not None and self._log.takes_break():
                self._log.emit(GraphBreak(ns, known, compile.id, about_break(reason, name or about["function"])))
        if frame.failure is not None:
            frame.ending["failure"] = about_break(frame.failure, name)
        if went_on := breaks.resumed(name):
            about["caused_by"] = self._breaks.cause_of((file, went_on[0]), went_on[1])
        if compile.caches:
            frame.ending["caches"] = [row | _unwritten(frame, row) for row in compile.caches]
        if frame.ending.get("outcome") == "compiled" and is_loaded(compile):
            frame.ending["outcome"] = "cache_hit"
        for begin in frame.begins:
            part = str((begin.args or {}).get("part"))
            begin.name = about["function"] if part == "forward" else f"{about['function']} {part}"
            begin.args = about | (begin.args or {})

    def _complete_stack(self, frame: Frame, reason: BreakReason) -> None:
        """Put what PyTorch's words leave out into a break's stack: all but the innermost of functions that call each
        other and have one name, as a user's `forward` and a library's. What was inlined is then compiled for itself,
        and the stack of that compile is whole."""
        if not reason.stack or (not is_installed(reason.stack[-1][0]) and _is_on(frame, reason.stack)):
            return
        file, _, function = reason.stack[-1]
        line = frame.line
        for other in self.known[self.known.index(frame) + 1 :]:
            inner = _from(frame, other)
            if inner and other.epoch == frame.epoch:
                if (other.file, other.name) == (file, function):
                    reason.inlined = len(inner) + 1
                    reason.stack = breaks.joined([*frame.stack, *inner, reason.stack[-1]])
                    return
                line = inner[0][1]
        if not frame.file:
            self.shortened = True
        elif not _is_on(frame, reason.stack):
            reason.inlined = 2
            reason.stack = breaks.joined([*reason.stack[:-1], (frame.file, line, _own(frame)[1]), reason.stack[-1]])

    def _about(self, frame: Frame, file: str, line: int, name: str, number: int) -> Args:
        went_on, function = breaks.resumed(name), breaks.whole_name(name)
        wrapped = function == _WRAPPER and file.endswith("external_utils.py")
        callers = [place for place in frame.stack if not is_installed(place[0])]
        # a library's code counts as the user's where the user has it compiled: unless another library called it
        others = [place for place in frame.stack if not passed_through(place[0])]
        of_library = is_installed(file) and bool(others) and is_installed(others[-1][0])
        where = location(file, line, function) if file and line and not wrapped else None
        is_numbered = frame.numbers[0] >= 0
        nameless = f"frame {frame.numbers[0]}" if is_numbered else "a function"
        function = _FUNCTION_OF_WRAPPER if wrapped else function or nameless
        context = dict(frame.modes)
        if frame.epoch:
            context[forms.CACHE.key()] = forms.generation(frame.epoch + 1)
        dynamic = {path: ", ".join(kinds) for path, kinds in frame.open_sizes.items()}
        inputs = {
            _KEYWORD.sub(r"\1", in_words(path)) if wrapped else in_words(path): type_
            for path, type_ in frame.inputs.items()
        }
        about: Args = {
            "function": f"{function}, resumed at line {went_on[1]}" if went_on else function,
            "origin": "library" if of_library else "user",
            "key": f"dynamo:{file}:{name}",
            "identity": f"{file}:{line}:{name} {number}" if name else f"frame {frame.numbers[0]}",
            "framework_id": "/".join(map(str, frame.numbers)),
            "location": where,
            "caller": location(*callers[-1]) if callers else None,
            "inputs": [{"argument": argument, "type": type_} for argument, type_ in inputs.items()],
            "context": context,
            "dynamic": (dynamic or NOTHING) if frame.tells_sizes else None,
        }
        if frame.again or frame.failures or frame.numbers[1] > 0 <= frame.numbers[0]:
            about["earlier"] = True  # which the log need not have told of: TORCH_LOGS=recompiles alone does not
        if is_numbered:
            about["variant"] = frame.numbers[1] + 1
        if frame.pinned:
            about["evidence"] = [_pinned(*pinned, where) for pinned, where in frame.pinned.items()]
        elif file and not line:
            about["evidence"] = [f"the function is defined in {file}, at a line that the log lacks"]
        if frame.failures:
            about["guard_failures"] = frame.failures
            signature = None if wrapped or went_on else parameters(file, line, function)
            about["guarded"] = guarded(frame.failures, inputs | frame.values, frame.objects, signature, wrapped)
        return about


def _pinned(path: str, what: str, where: str) -> str:
    place = path if what == "value" else f"dimension {what} of {path}"
    return f"{place} is compiled in, since this line needs it: {where}"


def _unwritten(frame: Frame, row: Args) -> Args:
    """Of an answer of a cache's: that nothing was stored, where the log tells it."""
    lacked = (row["layer"], row["state"]) == (caches.AOT_AUTOGRAD, "miss")
    has_backward = any((begin.args or {}).get("part") == "backward" for begin in frame.begins)
    return caches.NO_BACKWARD if lacked and frame.trains and not has_backward else {}


def _is_on(frame: Frame, stack: list[tuple[str, int, str]]) -> bool:
    """Whether the function that is compiled is on a stack."""
    return any((file, function) == _own(frame) for file, _, function in stack)


def _own(frame: Frame) -> tuple[str, str]:
    return frame.file, breaks.whole_name(frame.name)


def _from(frame: Frame, other: Frame) -> list[tuple[str, int, str]]:
    """What of another compile's stack is `frame`'s function, and what that had called."""
    below = [place for place in breaks.joined(frame.stack) if not is_installed(place[0])]
    stack = breaks.joined(other.stack)
    users = [index for index, place in enumerate(stack) if not is_installed(place[0])]
    if len(users) <= len(below) or [stack[index] for index in users[: len(below)]] != below:
        return []
    inner = stack[users[len(below)] :]
    return inner if (inner[0][0], inner[0][2]) == _own(frame) else []


def guarded(
    reasons: Iterable[str],
    values: Mapping[str, str],
    objects: Mapping[str, str],
    signature: Parameters | None,
    wrapped: bool,
) -> dict[str, Args]:
    """The values now where failed guards look, and their owners, as far as either is known."""
    by_path: dict[str, Args] = {}
    for path in (path for reason in reasons for path in looked_at(reason)):
        about: Args = {"value": values[path]} if path in values else {}
        root = _ROOT.match(path)
        holder = next((name for name in objects if path.startswith(f"{name}.")), None)
        if (wrapped and path in ("args", "kwargs")) or (signature is not None and path == signature.keywords):
            about |= {"argument": path, "place": "call"}
        elif holder is not None and objects[holder] == "module":
            about |= {"argument": path.removeprefix(f"{holder}."), "place": "global"}
        elif holder is not None:
            about |= {"argument": path, "place": "argument"}
        elif signature is not None and root is not None and root[0] == path and path not in signature.names:
            about |= {"argument": path, "place": "closure"}
        if about:
            by_path[path] = about
    return by_path
