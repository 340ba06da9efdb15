"""A name for a Dynamo graph that is the same in every process, rank and place: a hash of what it computes.

No name of a variable, attribute or file is in it, and no flag, version or device number. Nodes are numbered as they
come, and so are symbols of sizes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from itertools import chain, zip_longest
from types import CodeType, ModuleType
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import field, slotted
from coldstep.places import absolute
from coldstep_collectors.patch import Patch
from coldstep_collectors.sha import sha256, short
from coldstep_collectors.torch._private import names
from coldstep_collectors.unrolled import LEAST, MOST, Line, Operation

MODULE = "torch._dynamo.output_graph"
DIVIDING = "torch._dynamo.backends.distributed"
REGIONS = "torch._dynamo.variables.invoke_subgraph"
_REFUSED, _GUARD_REFUSED = "subgraph_reuse: ", "subgraph_reuse: reuse failed --\n"
_HIT = " hit for "
# PyTorch 2.13: "reuse failed -- input %d tag mismatch: cached '%s' vs current '%s'"
_WORD = expression(r"%[sd]")
_USUAL_LIMIT = 8
_MOST_SHOWN = 100  # characters of a text of the program's
_MAX_CONSTANT_BYTES = 1024
# PyTorch 2.13: "  File \"/repo/train.py\", line 12, in forward"
_PLACE = expression(r'File "([^"\n]+)", line (\d+), in (\S+)')
_MAX_DEPTH = 8  # of containers, and of graphs within graphs


def watch(module: ModuleType, seen: Callable[[Any], None]) -> Patch | None:
    """Have `seen(graph module)` called for each graph before a backend has it; None where that cannot be."""
    owner: Any = getattr(module, "OutputGraph", None)
    if (real := getattr(owner, "call_user_compiler", None)) is None:
        return None

    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        seen(gm)
        return real(self, gm, *args, **kwargs)

    return Patch(owner, "call_user_compiler", call_user_compiler)


def watch_division(module: ModuleType, divided: Callable[[int], Any]) -> Patch | None:
    """Have `divided(parts)` called for each graph of several; None where that cannot be."""
    owner: Any = getattr(module, "DDPOptimizer", None)
    if (real := getattr(owner, "compile_fn", None)) is None:
        return None

    def compile_fn(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(self, *args, **kwargs)
        finally:
            if (parts := len(getattr(self, "buckets", ()))) > 1:
                divided(parts)

    return Patch(owner, "compile_fn", compile_fn)


@slotted
class Region:
    """What became of the calls of one nested_compile_region in one graph."""

    code: CodeType
    limit: int
    """How many traces of it PyTorch keeps: one more is an error."""
    traced: int = 0
    reused: int = 0
    refused: dict[str, None] = field(default_factory=dict)
    """Why a trace that there was did not do, each reason once."""


@slotted
class RegionCall:
    """A call of such a region that is being traced, or that gets the trace of an earlier one."""

    is_reused: bool = False
    refused: list[str] = field(default_factory=list)


def watch_regions(module: ModuleType, called: Callable[[Any, Any, RegionCall], None]) -> list[Patch]:
    """Have `called(its function, the graph, what became of it)` called for each call of a nested_compile_region that a
    graph has; no patches where that cannot be."""
    if names.NESTED.form() is None:
        return []
    owner, stamp, log = module.InvokeSubgraphHigherOrderVariable, module.stamp_out_subgraph, module.hc_log
    real, thread = owner._call_function, _Thread()

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        thread.calls.append(call := RegionCall())
        try:
            result = real(self, tx, args, kwargs)
        finally:
            thread.calls.pop()
        called(args[0], tx.output, call)
        return result

    def stamp_out_subgraph(*args: Any, **kwargs: Any) -> Any:
        if thread.calls:
            thread.calls[-1].is_reused = True
        return stamp(*args, **kwargs)

    class Log:
        """PyTorch's own log, whose reasons for tracing anew are kept, whether it is on or not."""

        def debug(self, message: str, *words: Any) -> None:
            if thread.calls and message.startswith(_REFUSED) and _HIT not in message:
                thread.calls[-1].refused.append(_refusal(message, words))
            log.debug(message, *words)

        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

    return [
        Patch(owner, "_call_function", call_function),
        Patch(module, "stamp_out_subgraph", stamp_out_subgraph),
        Patch(module, "hc_log", Log()),
    ]


def region(function: Any) -> Region | None:
    """The region that Dynamo knows as `function`, of whose calls nothing is known yet."""
    if not isinstance(code := sys.modules[REGIONS].get_fn_code(function), CodeType):
        return None
    given = function.get_function() if hasattr(function, "get_function") else None
    limit = getattr(given, "__marked_compile_region_max_reuse_entries__", None)
    return Region(code, limit if isinstance(limit, int) else _USUAL_LIMIT)


def _refusal(message: str, words: tuple[Any, ...]) -> str:
    """PyTorch's message in one line, without the values of the program's own objects."""
    if message.startswith(_GUARD_REFUSED) and len(words) > 4:
        kind, _, place, before, now = words[:5]
        return f"{kind} of {place}" + (f": {before!r}, now {now!r}" if _is_plain(before) and _is_plain(now) else "")
    text = message.removeprefix(_REFUSED).split("\n")[0].strip(" -")
    texts = (str(word) if isinstance(word, (int, str, list)) else type(word).__name__ for word in words)
    parts = zip_longest(_WORD.split(text), [each.split("\n")[0] for each in texts], fillvalue="")
    text = "".join(chain.from_iterable(parts))
    return text.replace("tensor metadata mismatch", "is of another shape, stride, dtype, device or requires_grad")


def _is_plain(value: Any) -> bool:
    return type(value) in (int, float, bool, type(None)) or (type(value) is str and len(value) <= _MOST_SHOWN)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.calls: list[RegionCall] = []


Written = list[tuple[str, str, list[str], str]]
"""A graph's first operations: what each does, PyTorch's text of where it comes from, what of the graph's inputs it
reads, and the shape of its result."""


def written(gm: Any) -> Written:
    """Those of a graph, none of one that is too short for a loop; nothing of PyTorch's is kept."""
    nodes = [node for node in gm.graph.nodes if node.op.startswith("call_")][:MOST]
    return [
        (
            str(getattr(node.target, "__name__", node.target)),
            node.stack_trace or "",
            [each.name for each in node.all_input_nodes if each.op in ("placeholder", "get_attr")],
            str(getattr(node.meta.get("example_value"), "shape", "")),
        )
        for node in (nodes if len(nodes) >= LEAST else ())
    ]


def of_users(written: Written, is_users: Callable[[str], bool]) -> list[Operation]:
    """The same operations, with the lines of the user's that each comes from."""
    return [
        Operation(name, [line for line in _lines(stack) if is_users(line[0])], inputs, shape)
        for name, stack, inputs, shape in written
    ]


@lru_cache(maxsize=256)
def _lines(stack: str) -> tuple[Line, ...]:
    return tuple((absolute(file), int(line), function) for file, line, function in _PLACE.findall(stack))


def program(gm: Any) -> str:
    """The name: "1:" and 16 hex digits. Torch's object is read, and not kept."""
    torch: Any = sys.modules["torch"]
    normal = _Normal(torch)
    normal.say("grad", torch.is_grad_enabled())
    for device in ("cpu", "cuda", "xpu"):
        if torch.is_autocast_enabled(device):
            normal.say("autocast", device, torch.get_autocast_dtype(device))
    normal.graph(gm, 0)
    return f"1:{normal.digest()}"


class _Normal:
    """A graph in normal form, hashed as it is said."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._said = ["1"]
        self._symbols: dict[str, int] = {}

    def say(self, *words: object) -> None:
        """Words, with a mark at their end, so that no two sayings read alike."""
        self._said += "\x1f".join(map(str, words)), "\x1e"

    def digest(self) -> str:
        """16 hex digits for all that was added."""
        return short("".join(self._said))

    def graph(self, gm: Any, depth: int) -> None:
        """Node by node."""
        numbers: dict[Any, int] = {}
        targets: dict[int, str] = {}  # of a thousand nodes there are a few
        for number, node in enumerate(gm.graph.nodes):
            numbers[node] = number
            if node.op == "placeholder":
                self.say(node.op, self._value(node.meta.get("example_value")))
                continue
            given = self._form(node.args, numbers), self._form(node.kwargs, numbers)
            if node.op in ("get_attr", "call_module"):
                self.say(node.op, *given)
                self._attribute(gm, str(node.target), depth)
                continue
            if (target := targets.get(id(node.target))) is None:
                target = targets[id(node.target)] = _qualified(node.target)
            self.say(node.op, target, *given)

    def _attribute(self, gm: Any, path: str, depth: int) -> None:
        """What stands behind a name in the graph module: a graph of its own, a module, a constant."""
        value = gm
        for name in path.split("."):
            value = getattr(value, name, None)
        if depth < _MAX_DEPTH and hasattr(value, "graph") and hasattr(value.graph, "nodes"):
            self.graph(value, depth + 1)
            return
        self.say(type(value).__qualname__, self._value(value))
        if isinstance(value, self._torch.Tensor) and not isinstance(value, self._torch.nn.Parameter):
            self.say(self._content(value))

    def _content(self, tensor: Any) -> str:
        """A small constant's value, where reading it waits for no device."""
        plain = type(tensor) is self._torch.Tensor and tensor.device.type == "cpu"
        if not plain or tensor.numel() * tensor.element_size() > _MAX_CONSTANT_BYTES:
            return ""
        return str(tensor.detach().tolist())

    def _form(self, value: Any, numbers: dict[Any, int], depth: int = 0) -> str:
        """An argument of a node."""
        if isinstance(value, dict) and not value:  # as most calls have it by keyword
            return "{}"
        if type(value).__name__ == "Node":
            return f"%{numbers.get(value)}"
        if depth < _MAX_DEPTH:
            if isinstance(value, slice):
                return f"slice{self._form((value.start, value.stop, value.step), numbers, depth)}"
            if isinstance(value, (list, tuple)):
                return f"({','.join([self._form(item, numbers, depth + 1) for item in value])})"
            if isinstance(value, dict):
                items = (f"{key}={self._form(item, numbers, depth + 1)}" for key, item in value.items())
                return f"{{{','.join(items)}}}"
        return self._value(value)

    def _value(self, value: Any) -> str:
        torch = self._torch
        if isinstance(value, _PLAIN) or value is None:  # most of them
            text = repr(value)
            if len(text) > _MAX_CONSTANT_BYTES:
                text = sha256(text.encode("utf-8", "replace")).hexdigest()
            return f"{type(value).__name__} {text}"
        if isinstance(value, torch.Tensor):
            sizes = self._sizes(value.shape)
            strides = self._sizes(value.stride()) if value.layout == torch.strided else str(value.layout)
            gradient = "grad" if value.requires_grad else ""
            return f"{value.dtype}[{sizes}]({strides}){value.device.type}{gradient}"
        if isinstance(value, torch.device):
            return str(value.type)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self._size(value)
        if type(value).__module__.partition(".")[0] == "torch" and type(value).__name__ in _PRINTED:
            return str(value)
        return _qualified(value)

    def _sizes(self, sizes: Any) -> str:
        return ",".join([str(size) if type(size) is int else self._size(size) for size in sizes])

    def _size(self, size: Any) -> str:
        """A number, or the number of a symbol."""
        if isinstance(size, int):
            return str(size)
        return f"s{self._symbols.setdefault(str(size), len(self._symbols))}"


_PLAIN = (bool, int, float, complex, str, bytes)
_PRINTED = ("dtype", "layout", "memory_format")


def _qualified(target: Any) -> str:
    """A function by its qualified name; of an object its type's: no address is in it."""
    if isinstance(target, str):
        return target
    named = target if hasattr(target, "__qualname__") or hasattr(target, "__name__") else type(target)
    module = getattr(named, "__module__", None) or type(target).__name__
    return f"{module}.{getattr(named, '__qualname__', None) or getattr(named, '__name__', '')}"
