"""The key of a call's program in JAX, known before the call: a jitted function's options, and the types of values.

Nothing here compiles or runs anything. The names are JAX 0.10's and those before it, each tried for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.errors import our_errors
from coldstep.named_tuple import NamedTuple
from coldstep_collectors.jax._private.hooks import Dispatch, Internals, Leaf, partition, try_out
from coldstep_collectors.jax._private.names import OPTIONS

_USUAL_MEMORY = (None, "device", "unpinned_host")


@slotted
class Returned:
    """A value that an earlier call will have returned, as much as is known of it. For JAX, a leaf."""

    leaf: Leaf


class Placed(NamedTuple):
    """Where a committed array is: what of a sharding makes another program."""

    devices: tuple[int, ...]
    memory: str | None
    partition: str | None


def is_jitted(function: Any) -> bool:
    """Whether `function` is what `jax.jit` returns."""
    return options_of(function) is not None


def options_of(function: Any) -> Any:
    """The options that were given to `jax.jit`; None of anything else, and where this JAX hides them."""
    kind = getattr(sys.modules.get("jax._src.pjit"), "PjitInfo", None)
    options = getattr(function, "_jit_info", None)
    return options if kind is not None and isinstance(options, kind) else None


def inner(function: Any) -> Any:
    """The function that was given to `jax.jit`."""
    return getattr(function, "_fun", function)


def dispatch(internals: Internals, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Dispatch:
    """The call as the collector would read it off the stack, its leaves aside."""
    about = Dispatch(function=inner(function), options=options_of(function), args=tuple(args), kwargs=dict(kwargs))
    about.legible = internals.facts & OPTIONS.keys()
    return about


def leaf(jax: Any, value: Any) -> Leaf:
    """A leaf of a call's arguments as JAX sees it. Raises TypeError where it is no array and no number."""
    if isinstance(value, Returned):
        return value.leaf
    is_array = isinstance(value, jax.Array)
    committed = getattr(value, "committed", getattr(value, "_committed", False)) if is_array else False
    return Leaf(jax.typeof(value), value.sharding if is_array else None, bool(committed))


def is_constant(jax: Any, value: Any) -> bool:
    """Whether JAX sees the same in a value for as long as it lives; of an array of NumPy's the type may be set."""
    return isinstance(value, (Returned, jax.Array))


def placed(leaf: Leaf) -> Placed | None:
    """Where an array is pinned to; None where it is not."""
    if not leaf.committed:
        return None
    devices = tuple(sorted(device.id for device in leaf.sharding.device_set))
    rank = getattr(leaf.aval, "ndim", 0)
    memory = getattr(leaf.sharding, "memory_kind", None)
    return Placed(devices, None if memory in _USUAL_MEMORY else memory, partition(leaf.sharding, rank))


def place_of_results(leaves: Sequence[Leaf]) -> tuple[Any, bool] | None:
    """The sharding of what a call with these leaves returns, None for the usual one, and whether that is committed;
    None where the compiler decides it: where an argument is spread over devices."""
    pinned = [leaf.sharding for leaf in leaves if leaf.committed]
    if any(len(sharding.device_set) > 1 for sharding in pinned):
        return None
    return (pinned[0], True) if pinned else (None, False)


class Traced:
    """A function that was traced once: what it returns, for the arguments of that call and for some others."""

    def __init__(self, jax: Any, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        try_out(inner(function), function)
        traced = function.trace(*args, **kwargs)  # JAX keeps it for the call itself
        self._jax = jax
        self._jaxpr = traced.jaxpr
        self._tree = jax.tree.structure(traced.out_info)

    def results(self, avals: Sequence[Any]) -> list[Any] | None:
        """The types of the results for arguments that are as traced, but for their weak types; None where more than
        these may come of that.

        The function's Python is not asked again. A weak type gives way to a narrower one, so what computes with any may
        be another program with a strong one.
        """
        jaxpr = self._jaxpr.jaxpr
        triples = zip(jaxpr.invars, self._jaxpr.in_avals, avals, strict=True)
        changed = {variable: now for variable, was, now in triples if was != now}
        if not changed:
            return list(self._jaxpr.out_avals)
        equations = _reached(jaxpr, changed)
        kinds = {_family(aval.dtype): aval.dtype for aval in changed.values()}
        if any(dtype != kinds.get(_family(dtype), dtype) for dtype in {*_dtypes(equations)}):
            return None
        try:
            again = self._again(equations, changed, [each for each in jaxpr.outvars if not _is_literal(each)])
        except our_errors():  # no such function in this JAX, or a program that does not take these
            return None
        outs = zip(jaxpr.outvars, self._jaxpr.out_avals, strict=True)
        return [aval if _is_literal(variable) else again.get(variable, aval) for variable, aval in outs]

    def _again(self, equations: list[Any], changed: Mapping[Any, Any], wanted: list[Any]) -> dict[Any, Any]:
        """The types of results that come of these equations, where these of the variables have others."""
        made = {variable for equation in equations for variable in equation.outvars}
        read = (each for equation in equations for each in equation.invars if not _is_literal(each))
        given = list(dict.fromkeys([*changed, *(each for each in read if each not in made)]))
        outs = [each for each in dict.fromkeys(wanted) if each in made or each in changed]
        jaxpr = self._jaxpr.jaxpr
        words = getattr(jaxpr.debug_info, "with_unknown_names", lambda: None)()  # those that there are tell of all
        part = jaxpr.replace(constvars=[], invars=given, outvars=outs, eqns=equations, debug_info=words)
        core = _core()
        avals = (changed.get(each, each.aval) for each in given)
        structs = [self._jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
        closed = getattr(core, "ClosedJaxpr", None)  # since 0.12 a jaxpr is whole by itself
        whole = part if closed is None else closed(part, [])
        results = self._jax.make_jaxpr(core.jaxpr_as_fun(whole))(*structs).out_avals
        return dict(zip(outs, results, strict=True))

    def tree(self, avals: Iterable[Any], sharding: Any, committed: bool) -> Any:
        """The results in their tree."""
        return self._jax.tree.unflatten(self._tree, [Returned(Leaf(aval, sharding, committed)) for aval in avals])


def _core() -> Any:
    """What evaluates a program: where JAX has it, else by the way that is public, which imports all of `jax.extend`."""
    there = sys.modules.get("jax._src.core")
    return there if hasattr(there, "jaxpr_as_fun") else import_module("jax.extend.core")


def is_alike(was: Any, now: Any) -> bool:
    """Whether two types differ in being weak alone."""
    return bool(was.strip_weak_type() == now.strip_weak_type())


def _family(dtype: Any) -> str:
    """The numbers among which a weak type gives way: those that are whole, and all others."""
    name = str(dtype)
    return "whole" if name.startswith(("int", "uint")) else "bool" if name == "bool" else "real"


def _is_literal(variable: Any) -> bool:
    return hasattr(variable, "val")


def _reached(jaxpr: Any, variables: Iterable[Any]) -> list[Any]:
    """The equations of a program that compute with these variables, or with what comes of them."""
    reached = set(variables)
    needed = []
    for equation in jaxpr.eqns:
        if any(each in reached for each in equation.invars if not _is_literal(each)):
            needed.append(equation)
            reached.update(equation.outvars)
    return needed


def _dtypes(equations: Iterable[Any]) -> Iterator[Any]:
    """The types of elements of all that is computed with, programs within these equations included."""
    for equation in equations:
        for variable in (*equation.invars, *equation.outvars):
            if (dtype := getattr(variable.aval, "dtype", None)) is not None:
                yield dtype
        for parameter in equation.params.values():
            for each in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
                yield from _dtypes(getattr(getattr(each, "jaxpr", each), "eqns", ()))
