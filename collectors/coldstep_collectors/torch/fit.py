"""What a PyTorch step will hold: it is run twice on tensors without contents, and each storage counted while it lives.

Nothing is allocated and nothing of the user's is changed: modules, optimizers and tensors are copied, and the copies
are what the step sees. The second run counts, for the optimizer makes its state in the first.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import psutil

from coldstep._util.slotted import slotted
from coldstep.ahead.fit import Fit, Held, NotTried, half
from coldstep_collectors.ahead.step_parts import objects, taken_apart
from coldstep_collectors.torch._private import fakes

PARAMETERS, BUFFERS, STATE, BATCH = "parameters", "buffers", "optimizer state", "batch"
GRADIENTS, SAVED, REST = "gradients", "activations saved for the backward", "other temporaries"
_STANDING = (PARAMETERS, BUFFERS, STATE, BATCH)
_EAGER = (
    "As eager PyTorch runs it; torch.compile holds less where it fuses. What kernels need for themselves is not in it."
)
_FREED = "On a CPU the process holds more: the C library keeps some of the freed memory."
RAN = "The step's own code has run for this, twice for each figure: what it prints or writes to files stays."
"""A note on what cannot be undone."""
_MADE_UP = "The step reads values of tensors, which have none here: it got 1 each time."


Step = Callable[..., Any]
Given = tuple[Any, ...]
Change = Callable[[Any], Any]


def unchanged(value: Any) -> Any:
    """What a step is run on where nothing is changed."""
    return value


def fit(fn: Step, args: Given, memory: int | None) -> Fit:
    """See `coldstep.would_fit`."""
    torch = sys.modules["torch"]
    run = _run(torch, fn, args)
    arguments = sum(run.peak[what] for what in _STANDING)
    whole = sum(run.peak.values())
    limit = memory if memory is not None else _available(torch, run.on_cpu)
    figures = Fit("dynamo", arguments, run.output_bytes, 0, whole - arguments, whole, limit)
    figures.held = [Held(what, bytes_) for what, bytes_ in run.peak.most_common() if bytes_]
    figures.notes = [RAN, _EAGER, *([_FREED] if run.on_cpu else []), *([_MADE_UP] if run.read_values else [])]
    if figures.fits is False:
        propose(torch, args, figures, lambda *changes: sum(_run(torch, fn, args, *changes).peak.values()))
    return figures


def _available(torch: Any, on_cpu: bool) -> int:
    """What the machine has left, or the current GPU has in all."""
    return int(psutil.virtual_memory().available if on_cpu else torch.cuda.mem_get_info()[1])


@slotted
class _Run:
    peak: Counter[str]
    """Bytes by what they are held for, when most is held in the second step."""
    output_bytes: int
    read_values: bool
    on_cpu: bool


def _run(
    torch: Any,
    fn: Step,
    args: Given,
    change: Change = unchanged,
    batch: Change = unchanged,
    prepare: Change = unchanged,
) -> _Run:
    """The step twice, on copies: `change` makes each tensor another, `batch` those that are arguments by themselves,
    `prepare` does something to the modules."""
    mode = fakes.mode(torch)
    parts, rebuilt = taken_apart(fn)
    parts, given = fakes.copied(torch, (parts, args), partial(fakes.fake, torch, mode, change))
    step = rebuilt(parts)
    with mode:
        given = torch.utils._pytree.tree_map_only(torch.Tensor, batch, given)
    reached = list(objects(torch, [*parts, *given]))
    modules = [value for value in reached if isinstance(value, torch.nn.Module)]
    optimizers = [value for value in reached if isinstance(value, torch.optim.Optimizer)]
    prepare(modules)
    count = _Count()
    with ExitStack() as stack:
        for module in modules:
            for kind, tensors in ((PARAMETERS, module.parameters()), (BUFFERS, module.buffers())):
                for tensor in tensors:
                    count.hold(tensor, kind)
                    if tensor.requires_grad:
                        stack.callback(tensor.register_post_accumulate_grad_hook(count.gradient).remove)
        for tensor in (value for value in reached if isinstance(value, torch.Tensor)):
            count.hold(tensor, BATCH)
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(count.saved, lambda tensor: tensor))
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(mode)
        stack.enter_context(_counting(torch, count))
        result = step(*given)
        for optimizer in optimizers:
            for tensor in torch.utils._pytree.tree_leaves(dict(optimizer.state)):
                if isinstance(tensor, torch.Tensor):
                    count.hold(tensor, STATE)
        del result
        count.begin()
        result = step(*given)
    output = sum(_bytes(leaf) for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
    return _Run(count.peak, output, count.read_values, not count.on_gpu)


class _Count:
    """Each storage that is held, from its first tensor to its end, by what it is for."""

    def __init__(self) -> None:
        self.kinds: dict[int, tuple[str, int]] = {}
        self.now: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.read_values = self.on_gpu = False
        self._most = 0
        self._ends: dict[int, Any] = {}

    def hold(self, tensor: Any, kind: str, keep: bool = False) -> None:
        """Count a tensor's storage as that; `keep`: unless it is counted already."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if (known := self.kinds.get(key)) is not None and (keep or known[0] == kind):
            return
        if known is None:
            self._ends[key] = weakref.ref(storage, partial(self._end, key))
        else:
            self.now[known[0]] -= known[1]
        self.on_gpu |= tensor.device.type == "cuda"
        self.kinds[key] = kind, size
        self.now[kind] += size
        whole = sum(self.now.values())
        if whole > self._most:
            self._most, self.peak = whole, Counter(self.now)

    def kind(self, tensor: Any) -> str:
        """What its storage is counted as."""
        return self.kinds.get(tensor.untyped_storage()._cdata, (REST, 0))[0]

    def begin(self) -> None:
        """Count the most from here on."""
        self._most, self.peak = sum(self.now.values()), Counter(self.now)
        self.read_values = False

    def saved(self, tensor: Any) -> Any:
        """Of a tensor that is kept for the backward pass."""
        if self.kind(tensor) == REST:
            self.hold(tensor, SAVED)
        return tensor

    def gradient(self, parameter: Any) -> None:
        """Of a parameter that has got one."""
        if parameter.grad is not None:
            self.hold(parameter.grad, GRADIENTS)

    def _end(self, key: int, _storage: object) -> None:
        kind, size = self.kinds.pop(key)
        self.now[kind] -= size
        del self._ends[key]


def _counting(torch: Any, count: _Count) -> Any:
    """A mode that sees every operation, and counts what it makes."""

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]  # torch comes as Any
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten._local_scalar_dense.default:
                count.read_values |= count.kind(args[0]) != STATE
                return args[0].dtype.is_floating_point or args[0].dtype is torch.bool or 1
            made = func(*args, **(kwargs or {}))
            for leaf in torch.utils._pytree.tree_leaves(made):
                if isinstance(leaf, torch.Tensor):
                    count.hold(leaf, REST, keep=True)
            return made

    return Counting()


def _bytes(tensor: Any) -> int:
    return int(tensor.untyped_storage().nbytes())


# --- what would make it fit ---------------------------------------------------------------------------------------


def propose(torch: Any, args: tuple[Any, ...], figures: Fit, peak: Callable[..., int]) -> None:
    """Try each change; `peak` is that of the step with a change of its tensors, one of its batch, and one of its
    modules."""
    halved, narrow, again = partial(_half, _length(torch, args)), partial(_narrowed, torch), partial(_checkpoint, torch)
    around_each = "torch.utils.checkpoint around each of a row of like modules"
    changes = (
        ("batch", "half of it", partial(peak, unchanged, halved)),
        ("dtype", "bfloat16 instead of float32", partial(peak, narrow)),
        ("rematerialisation", around_each, partial(peak, unchanged, unchanged, again)),
    )
    figures.propose(figures.tried(*change) for change in changes)


def _length(torch: Any, args: tuple[Any, ...]) -> int | None:
    """The first dimension that all tensors among the arguments share."""
    tensors = [leaf for leaf in objects(torch, args) if isinstance(leaf, torch.Tensor)]
    lengths = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    return lengths.pop() if len(lengths) == 1 else None


def _half(length: int | None, tensor: Any) -> Any:
    return tensor[: half(length, "the tensors among the arguments")].clone()


def _narrowed(torch: Any, tensor: Any) -> Any:
    return tensor.to(torch.bfloat16) if tensor.dtype is torch.float32 else tensor


def _checkpoint(torch: Any, modules: Sequence[Any]) -> None:
    """Compute each module of a row of like ones again in the backward. Raises NotTried where there is no such row."""
    rows = [list(each.children()) for module in modules for each in module.modules()]
    again = [child for row in rows if len(row) > 1 and len({type(child) for child in row}) == 1 for child in row]
    if not again:
        raise NotTried("no row of like modules in the module")
    for child in again:
        child.forward = partial(torch.utils.checkpoint.checkpoint, child.forward, use_reentrant=False)
