"""What a torch_xla step will hold: XLA's own analysis of the step's program, traced on tensors without contents.

The step is traced twice, for the optimizer makes its state in the first; the second program is compiled, and never run.
On a CPU the first is, too: what compiling it leaves stays beside every later step.
Nothing of the user's is changed: modules, optimizers and tensors are copied.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import psutil

from coldstep._util.slotted import slotted
from coldstep.ahead.fit import LEFT_BY_COMPILING, MEASURED, Fit, Held
from coldstep_collectors.ahead.step_parts import objects, taken_apart
from coldstep_collectors.torch._private import fakes
from coldstep_collectors.torch.fit import BATCH, BUFFERS, GRADIENTS, PARAMETERS, RAN, STATE, propose, unchanged
from coldstep_collectors.torch_xla._private.hooks import Internals
from coldstep_collectors.torch_xla._private.memory import Programs, Sizes

_RESULTS = "results beside the arguments"
_KEPT = "Gradients that are there at the sync are results of the program."
_READ = "the step reads a value of a tensor, for which torch_xla runs the pending graph: it has more than one program"
_SYNCS = "the step syncs {} times: it has more than one program"


def fit(fn: Callable[..., Any], args: tuple[Any, ...], memory: int | None) -> Fit:
    """See `coldstep.would_fit`."""
    torch = sys.modules["torch"]
    on_cpu = Internals(sys.modules["torch_xla"]).device_type() == "CPU"
    run = _run(torch, fn, args, compiles_first=on_cpu)
    sizes, compiler = run.sizes, run.compiler_bytes
    peak = run.peak + compiler
    figures = Fit("torch_xla", run.arguments, sizes.results, sizes.reused, sizes.temporaries, peak, memory, compiler)
    if memory is None and on_cpu:
        figures.memory_bytes = int(psutil.virtual_memory().available) + compiler
    rows = [Held(role, bytes_) for role, bytes_ in run.standing.items() if bytes_]
    rows.append(Held("temporaries", sizes.temporaries))
    if compiler:
        rows.append(Held(LEFT_BY_COMPILING, compiler))
    rows.sort(key=lambda row: -row.bytes)
    if sizes.results > sizes.reused:
        rows.append(Held(_RESULTS, sizes.results - sizes.reused))
        rows.append(Held(GRADIENTS, run.gradient_bytes, _RESULTS))
    figures.held = rows
    figures.notes += [RAN, _KEPT, *([MEASURED] if on_cpu else [])]
    if figures.fits is False:
        propose(torch, args, figures, lambda *change: _run(torch, fn, args, *change).peak + compiler)
    return figures


@slotted
class _Run:
    sizes: Sizes
    standing: Counter[str]
    """Bytes by what they are held for, of what stands before and after a step."""
    unread_bytes: int
    """Of these, what the program does not take."""
    gradient_bytes: int
    compiler_bytes: int
    """What compiling left on a CPU, of the first program, too, where that was compiled."""

    @property
    def arguments(self) -> int:
        return self.sizes.arguments + self.unread_bytes

    @property
    def peak(self) -> int:
        """Without what compiling left."""
        return self.arguments + self.sizes.results - self.sizes.reused + self.sizes.temporaries


def _run(
    torch: Any,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    change: Callable[[Any], Any] = unchanged,
    batch: Callable[[Any], Any] = unchanged,
    prepare: Callable[[Sequence[Any]], object] = unchanged,
    *,
    compiles_first: bool = False,
) -> _Run:
    """The step's second program, compiled, and before it the first; the changes are those of `torch.fit`."""
    internals = Internals(sys.modules["torch_xla"])
    programs = Programs(on_cpu=internals.device_type() == "CPU")
    first: Sizes | None = None
    empty = partial(_empty, torch, programs)
    parts, rebuilt = taken_apart(fn)
    parts, given = fakes.copied(torch, (parts, args), partial(empty, change))
    given = torch.utils._pytree.tree_map_only(torch.Tensor, partial(empty, batch), given)
    step = rebuilt(parts)
    reached = list(objects(torch, [*parts, *given]))
    prepare([value for value in reached if isinstance(value, torch.nn.Module)])
    with programs.unsynced() as syncs, _reads_refused(torch):
        before = {id(tensor): internals.id_of(tensor) for tensor, _ in _standing(torch, reached)}
        result = step(*given)
        if len(syncs) > 1:
            raise ValueError(_SYNCS.format(len(syncs)))
        if compiles_first:
            roots, _ = _graph(torch, programs, internals, reached, before, result)
            first = programs.compiled(roots)
        for tensor, _ in _standing(torch, reached):
            tensor.data = empty(unchanged, tensor)
        before = {id(tensor): internals.id_of(tensor) for tensor, _ in _standing(torch, reached)}
        roles = {internals.id_of(tensor): (role, _bytes(tensor)) for tensor, role in _standing(torch, reached)}
        result = step(*given)
    roots, taken = _graph(torch, programs, internals, reached, before, result)
    standing: Counter[str] = Counter()
    unread = 0
    for number, (role, size) in roles.items():
        if number in taken or role != GRADIENTS:  # those of the step before are dropped as this one begins
            standing[role] += size
            unread += 0 if number in taken else size
    sizes = programs.compiled(roots)
    gradients = sum(_bytes(tensor) for tensor, role in _standing(torch, reached) if role == GRADIENTS)
    left = sizes.left + (first.left if first is not None and first is not sizes else 0)
    return _Run(sizes._replace(results=sizes.results + programs.base_bytes(roots)), standing, unread, gradients, left)


def _graph(
    torch: Any, programs: Programs, internals: Internals, reached: Sequence[Any], before: Mapping[int, int], result: Any
) -> tuple[list[Any], set[int | str]]:
    """What a sync at the end of a step would compute: what stands then, and what the step returned; and from which
    tensors. What stood `before` the step and is updated gives its place to the result."""
    held = [tensor for tensor, _ in _standing(torch, reached)]
    results = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    roots = internals.pending(list({id(tensor): tensor for tensor in [*held, *results] if _is_lazy(tensor)}.values()))
    inputs = internals.inputs(roots)
    updated = {before[id(tensor)] for tensor in roots if id(tensor) in before}
    programs.donate([tensor for number, tensor in inputs if number in updated])
    return roots, {number for number, _ in inputs}


def _empty(torch: Any, programs: Programs, change: Callable[[Any], Any], tensor: Any) -> Any:
    """A tensor in place of another, which holds nothing, of the type and size that `change` makes of it."""
    like = change(torch.empty(tensor.size(), dtype=tensor.dtype, device="meta"))
    return programs.placeholder(like) if _is_lazy(tensor) else torch.zeros_like(like, device=tensor.device)


def _standing(torch: Any, reached: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    """The tensors on the device that are there between two steps, and what for; each once."""
    seen: set[int] = set()
    for tensor, role in _all(torch, reached):
        if id(tensor) not in seen and _is_lazy(tensor):
            seen.add(id(tensor))
            yield tensor, role


def _all(torch: Any, reached: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    for value in reached:
        if isinstance(value, torch.nn.Module):
            for tensor in value.parameters():
                yield tensor, PARAMETERS
                if tensor.grad is not None:
                    yield tensor.grad, GRADIENTS
            yield from ((tensor, BUFFERS) for tensor in value.buffers())
    for value in reached:
        if isinstance(value, torch.optim.Optimizer):
            leaves = torch.utils._pytree.tree_leaves(dict(value.state))
            yield from ((leaf, STATE) for leaf in leaves if isinstance(leaf, torch.Tensor))
        elif isinstance(value, torch.Tensor):
            yield value, BATCH


def _reads_refused(torch: Any) -> Any:
    """A mode in which a value that is read ends the step: there is none."""

    class Refusing(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            aten = torch.ops.aten
            is_read = func is aten._local_scalar_dense.default
            device = torch.device((kwargs or {}).get("device") or "xla").type
            is_copy = func is aten._to_copy.default and device == "cpu"
            if (is_read or is_copy) and _is_lazy(args[0]):
                raise ValueError(_READ)
            return func(*args, **(kwargs or {}))

    return Refusing()


def _is_lazy(tensor: Any) -> bool:
    return bool(tensor.device.type == "xla")


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
