"""What a JAX step will hold: XLA's own memory analysis of the program, compiled ahead of time on abstract arguments."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import psutil

from coldstep._util.gathered import summed
from coldstep._util.slotted import slotted
from coldstep.ahead.fit import LEFT_BY_COMPILING, MEASURED, Fit, Held, Remedy, half
from coldstep_collectors.compile_memory import left
from coldstep_collectors.jax._private import dataflow
from coldstep_collectors.values import attribute

_ROLES = {"params": "parameters", "opt_state": "optimizer state"}
"""The fields or keys of a training state, as Flax has them."""
_MOST_COPIES = 3  # of the parameters that an optimizer keeps
SAVED = "activations saved for the backward"
_NO_LAYERS = "for a function does not show its layers"
_FUSED = (
    "Gradients and saved activations are as the program is written; what the compiler fuses or computes again "
    "need not be held."
)
_LEFT: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""By the jaxpr of a step, what compiling it left: JAX has that program, too, for as long, and compiles it once."""


@slotted
class _Group:
    """Leaves of the arguments that play one part."""

    argument: int
    """The position among the arguments."""
    name: str
    """Of a field or key of that argument; "" for all of it."""
    leaves: list[Any]
    role: str = "other arguments"

    @property
    def types(self) -> Counter[tuple[Any, ...]]:
        return Counter(_type(leaf) for leaf in self.leaves)

    @property
    def bytes(self) -> int:
        return sum(map(dataflow.bytes_of, self.leaves))


def fit(fn: Callable[..., Any], args: tuple[Any, ...], memory: int | None) -> Fit:
    """See `coldstep.would_fit`."""
    jax = sys.modules["jax"]
    args = abstract(jax, args)
    jax.devices()  # first: a backend that begins is no part of the step
    on_cpu = jax.default_backend() == "cpu"
    with left(on_cpu=on_cpu) as more:
        traced, compiled = _compiled(jax, fn, args)
    figures = _figures(compiled, _LEFT.setdefault(traced.jaxpr, more.bytes))
    results = Counter(_type(leaf) for leaf in jax.tree.leaves(traced.out_info))
    groups = _groups(jax, args)
    _assign(groups, results)
    figures.held = _held(figures, groups, traced.jaxpr)
    figures.notes += [_FUSED, *([MEASURED] if on_cpu else [])]
    figures.memory_bytes = memory if memory is not None else _available(jax, figures.compiler_bytes)
    if figures.fits is False:
        figures.propose(_remedies(jax, fn, args, figures, groups, results, _donated(jax, traced, len(args))))
    return figures


def abstract(jax: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with types in place of arrays; whatever is no array stays."""

    def typed(leaf: Any) -> Any:
        is_array = attribute(leaf, "shape") is not None and attribute(leaf, "dtype") is not None
        if not is_array or isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))

    made: tuple[Any, ...] = jax.tree.map(typed, args)
    return made


def _compiled(jax: Any, fn: Callable[..., Any], args: tuple[Any, ...], **options: Any) -> tuple[Any, Any]:
    """The step, traced and compiled; with options, as another `jax.jit` would."""
    given: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    while isinstance(fn, partial):
        given, named, fn = (*fn.args, *given), fn.keywords | named, fn.func
    if options:
        options["donate_argnums"] = tuple(n + len(given) for n in options["donate_argnums"])
        fn = jax.jit(partial(fn, **named), **options)
        named = {}
    elif not hasattr(fn, "trace"):
        fn = jax.jit(fn)
    traced = fn.trace(*given, *args, **named)  # type: ignore[attr-defined]
    return traced, traced.lower().compile()


def _figures(compiled: Any, compiler: int) -> Fit:
    """XLA's own, and what compiling left. Raises ValueError where the backend has none."""
    if (stats := compiled.memory_analysis()) is None:
        raise ValueError("this JAX backend does not report a program's memory")
    arguments, results = int(stats.argument_size_in_bytes), int(stats.output_size_in_bytes)
    temporaries, reused = int(stats.temp_size_in_bytes), int(stats.alias_size_in_bytes)
    peak = arguments + results - reused + temporaries + compiler
    return Fit("jax", arguments, results, reused, temporaries, peak, None, compiler)


# --- by what it is held -------------------------------------------------------------------------------------------


def _groups(jax: Any, args: tuple[Any, ...]) -> list[_Group]:
    """The arguments; of one that holds more than an optimizer's state or parameters, each field or key by itself."""
    whole: dict[int, _Group] = {}
    parts: dict[int, dict[str, _Group]] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(args)[0]:
        if attribute(leaf, "shape") is not None:
            at = path[0].idx
            key = "key" if isinstance(args[at], dict) else "name"
            field = str(getattr(path[1], key, "")) if len(path) > 1 else ""
            whole.setdefault(at, _Group(at, "", [])).leaves.append(leaf)
            parts.setdefault(at, {}).setdefault(field, _Group(at, field, [])).leaves.append(leaf)
    groups: list[_Group] = []
    for at, group in whole.items():
        is_copies = any(_is_made_of(group, other) for other in whole.values() if other is not group)
        is_state = _ROLES.keys() & parts[at] or not isinstance(args[at], dict)
        groups += parts[at].values() if is_state and not is_copies else [group]
    return groups


def _assign(groups: Sequence[_Group], results: Counter[tuple[Any, ...]]) -> None:
    """Say which are parameters and which optimizer state: by the names of fields, else by types alone: what is returned
    as it was given is state, and an optimizer's is made of copies of the parameters."""
    for group in groups:
        group.role = _ROLES.get(group.name, group.role)
    returned = [group for group in _returned(groups, results) if group.role not in _ROLES.values()]
    for params in sorted(returned, key=lambda group: group.bytes):
        for state in returned if params.role != "optimizer state" else ():
            if state is not params and state.role != "parameters" and _is_made_of(state, params):
                params.role, state.role = "parameters", "optimizer state"
    if returned and not any(group.role == "parameters" for group in groups):
        returned[0].role = "parameters"
    for group in groups:
        if group not in returned and group.role not in _ROLES.values():
            group.role = "batch"


def _returned(groups: Sequence[_Group], results: Counter[tuple[Any, ...]]) -> list[_Group]:
    """What comes back as it was given. State is taken to come before the batch: a result is that of one group only."""
    returned = []
    left = Counter(results)
    for group in groups:
        if group.types <= left:
            left -= group.types
            returned.append(group)
    return returned


def _is_made_of(state: _Group, params: _Group) -> bool:
    """Whether a state holds the parameters' types so many times, and else only single numbers."""
    arrays = Counter({kind: n for kind, n in state.types.items() if kind[0]})
    own = Counter({kind: n for kind, n in params.types.items() if kind[0]})
    return bool(own) and any(
        arrays == Counter({kind: n * times for kind, n in own.items()}) for times in range(1, _MOST_COPIES + 1)
    )


def _held(figures: Fit, groups: Sequence[_Group], jaxpr: Any) -> list[Held]:
    sums = summed((group.role, group.bytes) for group in groups)
    rows = [Held(role, bytes_) for role, bytes_ in sums.items() if bytes_]
    if (new := figures.output_bytes - figures.reused_bytes) > 0:
        rows.append(Held("results beside the arguments", new))
    rows.append(Held("temporaries", figures.temp_bytes))
    if figures.compiler_bytes:
        rows.append(Held(LEFT_BY_COMPILING, figures.compiler_bytes))
    rows.sort(key=lambda row: -row.bytes)
    if (flow := dataflow.of(jaxpr)) is not None:
        at = next(n for n, row in enumerate(rows) if row.what == "temporaries") + 1
        rows[at:at] = [
            Held("gradients", flow.gradient_bytes, "temporaries"),
            Held(SAVED, flow.saved_bytes, "temporaries"),
        ]
    return rows


def _type(leaf: Any) -> tuple[Any, ...]:
    return tuple(leaf.shape), str(leaf.dtype)


def _available(jax: Any, compiler: int) -> int | None:
    """What the first device has in all, or the machine has left and what compiling has taken of it."""
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return int(psutil.virtual_memory().available) + compiler if jax.default_backend() == "cpu" else None


# --- what would make it fit ---------------------------------------------------------------------------------------


def _remedies(
    jax: Any,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    figures: Fit,
    groups: Sequence[_Group],
    results: Counter[tuple[Any, ...]],
    keep: tuple[int, ...],
) -> Iterator[Remedy]:
    """`keep`: the positions of the arguments that the step donates already."""
    tried = partial(_tried, jax, fn, figures, keep)
    state = sorted({group.argument for group in _returned(groups, results)})
    if missing := [n for n in state if n not in keep]:
        change = f"donate_argnums={(*sorted({*keep, *missing}),)}"
        yield tried("donation", change, args, donate=(*keep, *missing))
    batch = {group.argument for group in groups if group.role == "batch"}
    yield tried("batch", "half of it", lambda: _halved(jax, args, batch))
    yield tried("dtype", "bfloat16 instead of float32", lambda: _narrowed(jax, args))
    if any(row.what == SAVED and row.bytes for row in figures.held):
        yield Remedy("rematerialisation", "jax.checkpoint around each layer", None, None, _NO_LAYERS)


def _tried(
    jax: Any,
    fn: Callable[..., Any],
    figures: Fit,
    keep: tuple[int, ...],
    name: str,
    change: str,
    args: tuple[Any, ...] | Callable[[], tuple[Any, ...]],
    donate: tuple[int, ...] | None = None,
) -> Remedy:
    """One change, compiled; a step that cannot be compiled so says why."""

    def peak() -> int:
        given = args() if callable(args) else args
        _, compiled = _compiled(jax, fn, given, donate_argnums=keep if donate is None else donate)
        return _figures(compiled, figures.compiler_bytes).peak_bytes

    return figures.tried(name, change, peak)


def _donated(jax: Any, traced: Any, number: int) -> tuple[int, ...]:
    """The positions of the arguments that a traced step donates, of the last `number`: those before are a partial's."""
    positional, _ = traced.args_info
    donated = [any(leaf.donated for leaf in jax.tree.leaves(arg, is_leaf=_is_leaf)) for arg in positional]
    return tuple(at for at, is_donated in enumerate(donated[-number:]) if is_donated)


def _is_leaf(value: Any) -> bool:
    return hasattr(value, "donated")


def _halved(jax: Any, args: tuple[Any, ...], batch: set[int]) -> tuple[Any, ...]:
    """The arguments with half of the batch. Raises NotTried."""
    lengths = {leaf.shape[0] for n in batch for leaf in jax.tree.leaves(args[n]) if getattr(leaf, "shape", ())}
    length = half(lengths.pop() if len(lengths) == 1 else None, "the arrays that are not returned")

    def halved(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((length, *leaf.shape[1:]), leaf.dtype) if getattr(leaf, "shape", ()) else leaf

    return tuple(jax.tree.map(halved, arg) if n in batch else arg for n, arg in enumerate(args))


def _narrowed(jax: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    def narrow(leaf: Any) -> Any:
        if str(getattr(leaf, "dtype", "")) != "float32":
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, "bfloat16", weak_type=leaf.weak_type)

    made: tuple[Any, ...] = jax.tree.map(narrow, args)
    return made
