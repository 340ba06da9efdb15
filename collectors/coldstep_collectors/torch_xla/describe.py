"""Says in text what a pending lazy graph is: its inputs under the names that the user's variables give them, its
operations and its constants.

Names are found from the user's frames outwards: modules, optimizers, tensors, in variables, containers and attributes.
All that outlives a look is text and numbers.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

from coldstep import context as forms
from coldstep._util.gathered import summed
from coldstep._util.slotted import field, slotted
from coldstep.events import Args
from coldstep.places import Places, variables
from coldstep_collectors.sha import sha256
from coldstep_collectors.torch._private import frames
from coldstep_collectors.torch_xla._private.hooks import Internals
from coldstep_collectors.values import closure, dtype_text, own_parts

_MAX_LEVELS = 3
_MAX_CONSTANT_CHARS = 100
_MAX_TENSORS = 20_000
_HOLD_NOTHING = {FunctionType, BuiltinFunctionType, MethodType, ModuleType, type, str, bytes, NoneType}
"""Types of most variables, and of no tensor, number or container."""
# torch_xla 2.9: "  ROOT %multiply.9 = f32[2,3]{1,0} multiply(f32[2,3]{1,0} %Arg_0.1, f32[2,3]{1,0} %broadcast.7)"
_INSTRUCTION = re.compile(
    r"^[ \t]+(?:ROOT )?%?[\w.-]+ = (\(.+?\)|[^( ]\S*) ([a-z][a-z0-9-]*)\(([^)\n]*)\)(.*)", re.MULTILINE
)
# torch_xla 2.9: ", slice={[3:5], [0:3]}"
_WHOLE = re.compile(r"(?<![\w.%])\d+")
# torch_xla 2.9: "  ROOT %multiply.9 = f32[2,3]{1,0} multiply(%Arg_0.1, %broadcast.7), metadata={op_type=\"aten__mul\"}"
_METADATA = re.compile(r", metadata=\{[^}]*\}")
# torch_xla 2.9: "f32[2,3]{1,0} %broadcast.6, f32[2,3]{1,0} %broadcast.8"
_OPERAND = re.compile(r"%([\w.-]+)")
NUMBER, TENSOR = "<number>", "<tensor>"
"""Inputs of a graph that no variable names: a Python number that was uploaded, any other tensor."""


@slotted
class Sight:
    """The tensors in reach at one moment, as text."""

    types: dict[str, str] = field(default_factory=dict)
    """The abstract value of each, by the path as the user would write it."""
    ids: dict[int, str] = field(default_factory=dict)
    """The path by torch_xla's number for what the tensor held."""
    versions: dict[str, int] = field(default_factory=dict)
    """How often each gradient has been changed in place."""
    numbers: dict[str, str] = field(default_factory=dict)
    """Python numbers in variables and in the optimizers' settings."""
    states: dict[str, str] = field(default_factory=dict)
    """What each optimizer keeps for a parameter: "optimizer.state" → "{'exp_avg', 'exp_avg_sq', 'step'}"."""
    training: str = ""
    """Which modules are in training mode: "model on"."""

    def gradients(self, since: Sight) -> str:
        """A gradient that was there at `since` and has been added to, with its type; else "new", or "none".

        A new tensor's version begins anew.
        """
        kept = [name for name, version in self.versions.items() if version > since.versions.get(name, version)]
        return f"{kept[0]} {self.types.get(kept[0])}" if kept else "new" if self.versions else "none"


@slotted
class Graph:
    """A pending graph, as text."""

    inputs: list[Args]
    context: dict[str, str]
    program: str
    """What it computes, as a hash."""
    programs: dict[str, str] = field(default_factory=dict)
    """It itself, by form, where that was asked for."""


@slotted
class _Reach:
    """Live objects in reach by their paths. For use inside the hook only."""

    modules: dict[str, Any] = field(default_factory=dict)
    optimizers: dict[str, Any] = field(default_factory=dict)
    tensors: list[tuple[str, Any]] = field(default_factory=list)
    numbers: dict[str, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)


class Looker:
    """Finds the tensors of the user's variables, and describes their pending graph."""

    def __init__(self, torch: Any, internals: Internals, places: Places) -> None:
        self._torch, self._internals, self._places = torch, internals, places

    def look(self, frame: FrameType | None, function: Any = None) -> Sight:
        """The values in reach of `frame` and its callers, and those that `function` closes over."""
        return self._look(frame, function)[0]

    def look_at_graph(
        self, frame: FrameType, function: Any, names: dict[int, str], programs: bool
    ) -> tuple[Sight, Graph | None]:
        """The same, and the graph of all that is pending; `names` are those of ids seen earlier, `programs` asks for
        the graph itself. Call it when the device has run all its work: only then the inputs can be distinguished.
        """
        sight, tensors = self._look(frame, function)
        roots = self._internals.pending(tensors)
        graph = self._describe(roots, names | sight.ids) if roots else None
        if graph is not None and programs:
            graph.programs = self._internals.programs(roots)
        return sight, graph

    def _describe(self, roots: list[Any], names: dict[int, str]) -> Graph:
        inputs: list[Args] = []
        for id, tensor in self._internals.inputs(roots):
            name = id if isinstance(id, str) else names.get(id, TENSOR if tensor.dim() else NUMBER)
            inputs.append({"argument": name, "type": abstract_value(tensor)})
        text = self._internals.hlo(roots)
        return Graph(inputs, _hlo(text), program(text))

    def _look(self, frame: FrameType | None, function: Any) -> tuple[Sight, list[Any]]:
        with frames.plain_tensors():
            reach = self._reach(frame, function)
            sight = Sight(numbers=reach.numbers)
            tensors: list[Any] = []
            names: dict[int, str] = {}  # of tensors, by the id of the Python object
            for name, tensor in self._tensors(reach, names, sight):
                if len(tensors) == _MAX_TENSORS:
                    break
                path = names.setdefault(id(tensor), name)
                if path in sight.types or not self._is_lazy(tensor):
                    continue
                sight.types[path] = abstract_value(tensor)
                sight.ids.setdefault(self._internals.id_of(tensor), path)
                tensors.append(tensor)
            training = (f"{name} {'on' if module.training else 'off'}" for name, module in reach.modules.items())
            sight.training = ", ".join(training)
            return sight, tensors

    def _tensors(self, reach: _Reach, names: dict[int, str], sight: Sight) -> Iterator[tuple[str, Any]]:
        """All tensors by name, the names of parameters first: optimizers name their state after them."""
        for path, module in reach.modules.items():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                yield f"{path}.{name.replace('_orig_mod.', '')}", tensor
        for path, optimizer in reach.optimizers.items():
            for number, group in enumerate(optimizer.param_groups):
                for position, parameter in enumerate(group["params"]):
                    yield f"{path}.param_groups[{number}]['params'][{position}]", parameter
                for name, value in group.items():
                    if type(value) in (int, float, bool) and len(sight.numbers) < _MAX_CONSTANT_CHARS:
                        sight.numbers[f"{path}.param_groups[{number}][{name!r}]"] = repr(value)
            keys = set()
            for parameter, state in optimizer.state.items():
                if isinstance(state, dict):
                    keys |= {repr(key) for key in state if isinstance(key, str)}
                    for key, value in state.items():
                        yield f"{path}.state[{names.get(id(parameter), '?')}][{key!r}]", value
            sight.states[f"{path}.state"] = f"{{{', '.join(sorted(keys))}}}"
        for tensor in self._parameters(reach):
            if self._is_tensor(gradient := tensor.grad):
                name = f"{names.get(id(tensor), '?')}.grad"
                sight.versions[name] = gradient._version
                yield name, gradient
        yield from reach.tensors

    def _parameters(self, reach: _Reach) -> Iterator[Any]:
        owners = [module.parameters() for module in reach.modules.values()]
        owners += [group["params"] for each in reach.optimizers.values() for group in each.param_groups]
        return chain.from_iterable(owners)

    def _is_tensor(self, value: Any) -> bool:
        return issubclass(type(value), self._torch.Tensor)

    def _is_lazy(self, value: Any) -> bool:
        return self._is_tensor(value) and value.device.type == "xla"

    # --- variables --------------------------------------------------------------------------------------------

    def _reach(self, frame: FrameType | None, function: Any) -> _Reach:
        """From the outermost frame inwards, so that names are the same at a step's mark and at the sync within it."""
        reach = _Reach()
        stack = [*self._places.users_frames(frame)][::-1]
        scopes = (*map(variables, stack), *(each.f_globals for each in stack), *_closures(function))
        for scope in {id(scope): scope for scope in scopes}.values():
            named = [(name, value) for name, value in list(scope.items()) if not name.startswith("__")]
            # what a variable holds itself is named after it, not after what else holds it
            containers = [(name, value) for name, value in named if not self._note(reach, name, value)]
            for name, value in containers:
                self._visit(reach, name, value, _MAX_LEVELS)
        inner = {id(part) for module in reach.modules.values() for part in list(module.modules())[1:]}
        reach.modules = {name: module for name, module in reach.modules.items() if id(module) not in inner}
        return reach

    def _visit(self, reach: _Reach, path: str, value: Any, depth: int) -> None:
        """Note `value`, or what it holds `depth` levels down."""
        if self._note(reach, path, value) or not depth:
            return
        if parts := own_parts(path, value):
            reach.seen.add(id(value))
            for name, part in parts:
                self._visit(reach, name, part, depth - 1)

    def _note(self, reach: _Reach, path: str, value: Any) -> bool:
        """Note `value` if it is looked for; False for what may hold some that is, and has not been seen."""
        kind = type(value)
        if kind in _HOLD_NOTHING:
            return True
        if kind in (int, float, bool):
            if len(reach.numbers) < _MAX_CONSTANT_CHARS:
                reach.numbers.setdefault(path, repr(value)[:_MAX_CONSTANT_CHARS])
            return True
        if id(value) in reach.seen:
            return True
        if issubclass(kind, self._torch.nn.Module):
            reach.modules[path] = value
        elif issubclass(kind, self._torch.optim.Optimizer):
            reach.optimizers[path] = value
        elif issubclass(kind, self._torch.Tensor):
            reach.tensors.append((path, value))
        else:
            return False
        reach.seen.add(id(value))
        return True


def _closures(function: Any) -> Iterator[dict[str, Any]]:
    """What a function closes over, and its globals; of a method, the object it is bound to."""
    if isinstance(function, MethodType):
        yield {"self": function.__self__}
        function = function.__func__
    if isinstance(function, FunctionType):
        yield dict(closure(function))
        yield function.__globals__
    elif function is not None:
        yield {type(function).__name__.lower(): function}


# --- text -----------------------------------------------------------------------------------------------------


def abstract_value(tensor: Any) -> str:
    """A tensor's type, as in f32[8,128]."""
    return f"{dtype_text(tensor.dtype)}[{','.join(map(str, tensor.shape))}]"


def program(text: str) -> str:
    """A name for what a graph's text computes, the same in every process: "1:" and 16 hex digits."""
    return f"1:{sha256(_METADATA.sub('', text).encode()).hexdigest()[:16]}"


def _hlo(text: str) -> dict[str, str]:
    """What a graph's text says in few words: how many of each operation, which constants, of what types, how
    they hang together."""
    instructions = _INSTRUCTION.findall(text)
    operations = Counter([operation for _, operation, *_ in instructions])
    kinds = Counter([kind for kind, *_ in instructions])
    results = summed((kind.partition("{")[0], number) for kind, number in kinds.items())
    constants = Counter(
        f"{kind.partition('{')[0]} {operands[:_MAX_CONSTANT_CHARS]}"
        for kind, operation, operands, _ in instructions
        if operation == "constant"
    )
    structure = "".join([f"{operation} {_OPERAND.findall(operands)}" for _, operation, operands, _ in instructions])
    numbers = Counter([number for *_, rest in instructions for number in _WHOLE.findall(_METADATA.sub("", rest))])
    return {
        forms.OPERATIONS.key(): forms.counted(operations),
        forms.CONSTANTS.key(): forms.counted(constants),
        forms.RESULTS.key(): forms.counted(results),
        forms.ATTRIBUTES.key(): forms.counted(numbers),
        forms.STRUCTURE.key(): f"{zlib.crc32(structure.encode()):08x}",
        forms.TEXT.key(): f"{zlib.crc32(text.encode()):08x}",
    }
