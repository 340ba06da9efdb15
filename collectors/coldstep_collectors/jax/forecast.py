"""Foretells what JAX compiles: each call's signature as the collector would write it, compared before it is paid for.

JAX compiles once per signature: the tree of the arguments, each leaf's type with its weak type, the devices of
committed arrays, and the static values. What one call's results make of the next is asked of one abstract trace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import FunctionType, MethodType
from typing import Any

from coldstep.ahead.forecast_rows import Call, Foretold, ForetoldCompile, Sizes
from coldstep.errors import first_line, our_errors
from coldstep.events import Args
from coldstep.named_tuple import NamedTuple
from coldstep_collectors.jax._private import signatures as private
from coldstep_collectors.jax._private.hooks import Dispatch, Internals, Leaf, has_run
from coldstep_collectors.jax.describe import Describer

_BEFORE = "the function was called before in this process, and JAX does not show with which arguments"
_PLACED = "its arguments lie elsewhere than those of an earlier call, and in_shardings may or may not make up for that"
_DOUBT = "an earlier call, of which not all is known, may have compiled it"
_ONCE = "what the call before returns is not known: it takes other types than the one that was traced"
_SPREAD = "what the call before returns is not known: the compiler decides how it lies on the devices"


_Places = tuple[private.Placed | None, ...]


class _Key(NamedTuple):
    """What JAX keeps a program under."""

    tree: Hashable
    statics: Hashable
    types: tuple[int, ...]
    """Of the leaves, as `_Leaves` numbers them."""
    places: _Places


class _Seen(NamedTuple):
    """A leaf of a call that was looked at."""

    value: Any
    leaf: Leaf
    type: int
    place: private.Placed | None
    stays: bool
    """Whether JAX sees the same in the value for as long as it is here."""


class _Leaves:
    """Looks at the leaves of calls, and numbers their types. What the call before had, too, is known already."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax
        self._types: dict[Any, int] = {}
        self._before: dict[int, _Seen] = {}
        """By id: no other value has it for as long as this one is here."""

    def look(self, values: Iterable[Any]) -> list[_Seen]:
        """What JAX sees of these. Raises TypeError for anything but an array or a number."""
        before, now = self._before, dict[int, _Seen]()
        rows = []
        for value in values:
            seen = before.get(id(value)) or self._look_at(value)
            if seen.stays:
                now[id(value)] = seen
            rows.append(seen)
        self._before = now
        return rows

    def _look_at(self, value: Any) -> _Seen:
        leaf = private.leaf(self._jax, value)
        number = self._types.setdefault(leaf.aval, len(self._types))
        return _Seen(value, leaf, number, private.placed(leaf), private.is_constant(self._jax, value))


def foretell(function: Callable[..., Any], calls: Iterable[Call], feed: Mapping[str, str]) -> Foretold:
    """Which of these calls JAX will compile."""
    forecaster = _Forecaster(function, feed)
    for call in calls:
        forecaster.take(call)
    return forecaster.told()


class _Forecaster:
    """Takes the calls one by one."""

    def __init__(self, function: Any, feed: Mapping[str, str]) -> None:
        import jax

        self._jax = jax
        self._told = Foretold("jax", getattr(function, "__name__", type(function).__name__))
        self._why = _BEFORE if private.is_jitted(function) and has_run(function) else ""
        if isinstance(function, (FunctionType, MethodType)) and not private.is_jitted(function):
            self._told.notes.append("the function is taken as if it were under jax.jit, without options")
            function = jax.jit(function)
        self._function = function
        if not private.is_jitted(function):
            self._why = f"what a {type(function).__qualname__} hands to JAX is not known"
        self._internals = Internals()
        self._describer = Describer(jax, self._internals)
        self._feed = _Feed(jax, function, feed) if feed and not self._why else None
        self._variants: list[Args] = []
        self._leaves = _Leaves(jax)
        self._known: dict[_Key, _Places] = {}
        """The signatures so far; beside each, where the arguments of its first call lay."""
        self._sizes: dict[_Key, Sizes] = {}
        self._names: dict[Hashable, list[str]] = {}
        """The arguments' leaves, by tree."""
        self._rests: set[Hashable] = set()
        """The same without what is fed back."""
        self._doubtful: set[Hashable] = set()
        """Of calls of which no more is known than that."""

    def take(self, call: Call) -> None:
        """Judge the next call."""
        number = self._told.next_call()
        if self._why:
            self._told.leave_open(number, self._why)
            return
        missing = ""
        if self._feed is not None:
            call, missing = self._feed.into(call)
        try:
            dispatch = private.dispatch(self._internals, self._function, call.args, call.kwargs)
            key, places = self._key(dispatch)
            is_new = key not in self._known
            about = self._about(dispatch) if is_new else None
            rest = self._rest(dispatch, key) if is_new or missing else key
        except our_errors() as error:  # what JAX itself would refuse, and code of the user's own that it would call
            self._told.leave_open(number, f"the call itself would fail: {first_line(error)}")
            return
        if key not in self._sizes:
            self._sizes[key] = self._sizes_of(key, about, dispatch.leaves)
        self._told.sizes.append(self._sizes[key])
        self._judge(number, key, rest, about, missing, places)
        if self._feed is not None:
            self._feed.after(call, dispatch, key, places)

    def told(self) -> Foretold:
        """The whole forecast, with the causes that a report would give."""
        if len(self._variants) > 1:
            from coldstep.analysis.recompiles.causes import explain_in_turn  # here: one variant has no need of it

            explain_in_turn("jax", self._variants, self._told.compiles)
        return self._told

    def _judge(
        self,
        number: int,
        key: _Key,
        rest: Hashable,
        about: Args | None,
        missing: str,
        places: _Places,
    ) -> None:
        if missing:  # a call that is new in what is known of it is new, whatever the rest is
            if rest in self._rests or rest in self._doubtful:
                self._told.leave_open(number, missing)
            else:
                self._compiles(number, about)
            self._doubtful.add(rest)
        elif key in self._known:
            if self._known[key] != places:
                self._told.leave_open(number, _PLACED)
        elif rest in self._doubtful:
            self._told.leave_open(number, _DOUBT)
        else:
            self._known[key] = places
            self._rests.add(rest)
            self._compiles(number, about)

    def _compiles(self, number: int, about: Args | None) -> None:
        assert about is not None
        self._told.compiles.append(ForetoldCompile(number))
        self._variants.append(about)

    def _key(self, dispatch: Dispatch) -> tuple[_Key, _Places]:
        """A call's signature, and where its arguments lie, which may be no part of that; its leaves are found, too."""
        values, tree = self._jax.tree.flatten(_dynamic(dispatch))
        rows = self._leaves.look(values)
        dispatch.leaves = [row.leaf for row in rows]
        statics = tuple((name, type(value), value) for name, value in dispatch.statics())
        hash(statics)
        places = tuple(row.place for row in rows)
        specified = "in_shardings" in dispatch.specified_shardings()
        return _Key(tree, statics, tuple(row.type for row in rows), () if specified else places), places

    def _rest(self, dispatch: Dispatch, key: _Key) -> Hashable:
        if self._feed is None:
            return key
        without = self._feed.without(Call(tuple(dispatch.args), dispatch.kwargs))
        return self._key(private.dispatch(self._internals, self._function, without.args, without.kwargs))[0]

    def _sizes_of(self, key: _Key, about: Args | None, leaves: list[Leaf]) -> Sizes:
        """A call's signature, with the sizes of its arrays apart."""
        if about is not None:
            self._names[key.tree] = [str(row["argument"]) for row in about["inputs"] or () if row["type"] != "None"]
        named = self._names[key.tree]
        if len(named) != len(leaves):
            return Sizes({}, key)
        shapes = {name: tuple(leaf.aval.shape) for name, leaf in zip(named, leaves, strict=True)}
        types = tuple((leaf.aval.dtype, bool(leaf.aval.weak_type)) for leaf in leaves)
        return Sizes(shapes, (key.tree, key.statics, types, key.places))

    def _about(self, dispatch: Dispatch) -> Args:
        about = self._describer.describe(dispatch, self._told.function, sys._getframe())
        self._told.function = about["function"]
        return about | {"origin": "user", "identity": "the function"}


class _Feed:
    """What results of a call go into the next one."""

    def __init__(self, jax: Any, function: Any, feed: Mapping[str, str]) -> None:
        self._jax = jax
        self._function = function
        options = private.options_of(function)
        self._parameters = list(options.fun_signature.parameters) if options.fun_signature is not None else []
        if unknown := [name for name in feed.values() if name not in self._parameters]:
            raise ValueError(
                f"the function has no argument {unknown[0]!r} to feed: it has {', '.join(self._parameters)}"
            )
        self._feed = feed
        self._traced: private.Traced | None = None
        self._as_traced: tuple[Hashable, Hashable, list[Any]]
        self._returned: dict[tuple[_Key, _Places], dict[str, Any]] = {}
        """What calls of a signature return of what is fed."""
        self._values: dict[str, Any] = {}
        self._missing = ""

    def into(self, call: Call) -> tuple[Call, str]:
        """The call with the results of earlier ones; where these are unknown, the reason, and the last known ones."""
        return self._with(call, self._values), self._missing

    def without(self, call: Call) -> Call:
        """The call with None in the place of each fed argument."""
        return self._with(call, dict.fromkeys(self._feed.values()))

    def after(self, call: Call, dispatch: Dispatch, key: _Key, places: _Places) -> None:
        """Take down what this call returns."""
        if self._missing:
            return
        if (known := self._returned.get((key, places))) is not None:
            self._values = known
            return
        avals = [leaf.aval for leaf in dispatch.leaves]
        if self._traced is None:
            try:
                self._traced = private.Traced(self._jax, self._function, call.args, call.kwargs)
            except our_errors() as error:
                self._missing = f"the function cannot be traced: {first_line(error)}"
                return
            self._as_traced = key.tree, key.statics, avals
        tree, statics, traced_for = self._as_traced
        alike = (key.tree, key.statics) == (tree, statics) and all(map(private.is_alike, traced_for, avals))
        returned = self._traced.results(avals) if alike else None
        place = private.place_of_results(dispatch.leaves) if not dispatch.specified_shardings() else None
        if returned is None or place is None:
            self._missing = _ONCE if returned is None else _SPREAD
            return
        result = self._traced.tree(returned, *place)
        self._values = {name: _at(result, path) for path, name in self._feed.items()}
        self._returned[key, places] = self._values

    def _with(self, call: Call, values: Mapping[str, Any]) -> Call:
        args, kwargs = list(call.args), dict(call.kwargs)
        for name, value in values.items():
            at = self._parameters.index(name)
            if at < len(args):
                args[at] = value
            else:
                kwargs[name] = value
        return Call(tuple(args), kwargs)


def _dynamic(dispatch: Dispatch) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments without the static ones."""
    options = dispatch.options
    static = {at if at >= 0 else at + len(dispatch.args) for at in options.static_argnums}
    args = tuple(None if at in static else value for at, value in enumerate(dispatch.args))
    return args, {name: None if name in options.static_argnames else value for name, value in dispatch.kwargs.items()}


def _at(result: Any, path: str) -> Any:
    """What stands at a path, "0.params", of a result. Raises ValueError where nothing does."""
    for part in filter(None, path.split(".")):
        try:
            if isinstance(result, Mapping):
                result = result[part] if part in result else result[int(part)]
            elif part.isdecimal():
                result = result[int(part)]
            else:
                result = getattr(result, part)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise ValueError(f"the result has nothing at {path!r} to feed") from None
    return result
