"""Foretells what JAX compiles: each call's signature as the collector would write it, compared before it is paid for.

JAX compiles once per signature: the tree of the arguments, each leaf's type with its weak type, where what is committed
lies, and the static values. What one call's results make of the next is asked of one abstract trace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from coldstep.errors import first_line
from coldstep.events import Args
from coldstep.foretold import Call, Foretold, ForetoldCompile, Sizes, UnknownCall
from coldstep.recorder import Retold
from coldstep.retold import read_back
from coldstep_collectors._private import jax_signatures as private
from coldstep_collectors._private.jax import Dispatch, Internals, Leaf
from coldstep_collectors.jax_programs import Describer

_PHASES = ["jax.trace", "jax.lower", "xla.compile"]
_BEFORE = "the function was called before in this process, and JAX does not tell what for"
_PLACED = "its arguments lie elsewhere than those of an earlier call, and in_shardings may or may not make up for that"
_DOUBT = "an earlier call, of which not all is known, may have compiled it"
_ONCE = "what the call before returns is not known: it takes other types than the one that was traced"
_SPREAD = "what the call before returns is not known: the compiler decides how it lies on the devices"


class _Key(NamedTuple):
    """What JAX keeps a program under."""

    tree: Hashable
    statics: Hashable
    avals: tuple[Any, ...]
    places: tuple[private.Placed | None, ...]


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
        self._why = _BEFORE if private.is_jitted(function) and private.has_run(function) else ""
        if isinstance(function, (FunctionType, MethodType)) and not private.is_jitted(function):
            self._told.notes.append("the function is taken as if it were under jax.jit, without options")
            function = jax.jit(function)
        self._function = function
        if not private.is_jitted(function):
            self._why = f"what a {type(function).__qualname__} hands to JAX is not known"
        self._internals = Internals()
        self._describer = Describer(jax, self._internals)
        self._feed = _Feed(jax, function, feed) if feed and not self._why else None
        self._variants: list[Retold] = []
        self._known: dict[_Key, tuple[private.Placed | None, ...]] = {}
        """The signatures so far; beside each, where the arguments of its first call lay."""
        self._names: dict[Hashable, list[str]] = {}
        """The arguments' leaves, by tree."""
        self._rests: set[Hashable] = set()
        """The same without what is fed back."""
        self._doubtful: set[Hashable] = set()
        """Of calls of which no more is known than that."""

    def take(self, call: Call) -> None:
        """Judge the next call."""
        number = self._told.calls
        self._told.calls += 1
        if self._why:
            self._unknown(number, self._why)
            return
        missing = ""
        if self._feed is not None:
            call, missing = self._feed.into(call)
        try:
            found = private.dispatch(self._internals, self._function, call.args, call.kwargs)
            key = self._key(found)
            rest = self._rest(found, key)
            about = self._about(found) if key not in self._known else None
        except Exception as error:  # what JAX itself would refuse, and code of the user's own that it would call
            self._unknown(number, f"the call itself would fail: {first_line(error)}")
            return
        self._told.sizes.append(self._sizes(key, about, found.leaves))
        self._judge(number, key, rest, about, missing, tuple(map(private.placed, found.leaves)))
        if self._feed is not None:
            self._feed.after(call, found, key)

    def told(self) -> Foretold:
        """All that was found, with the causes that a report would tell."""
        if len(self._variants) > 1:
            again = read_back(self._variants, "", {}).recompiles
            for row, why in zip(self._told.compiles[1:], again, strict=True):
                row.cause, row.argument, row.before, row.after = why.cause, why.argument, why.before, why.after
        return self._told

    def _judge(
        self,
        number: int,
        key: _Key,
        rest: Hashable,
        about: Args | None,
        missing: str,
        places: tuple[private.Placed | None, ...],
    ) -> None:
        if missing:  # a call that is new in what is known of it is new, whatever the rest is
            if rest in self._rests or rest in self._doubtful:
                self._unknown(number, missing)
            else:
                self._compiles(number, about)
            self._doubtful.add(rest)
        elif key in self._known:
            if self._known[key] != places:
                self._unknown(number, _PLACED)
        elif rest in self._doubtful:
            self._unknown(number, _DOUBT)
        else:
            self._known[key] = places
            self._rests.add(rest)
            self._compiles(number, about)

    def _compiles(self, number: int, about: Args | None) -> None:
        assert about is not None
        self._told.compiles.append(ForetoldCompile(number, "first", None, None, None))
        self._variants.append(Retold("jax", about, _PHASES))

    def _unknown(self, number: int, why: str) -> None:
        self._told.unknown.append(UnknownCall(number, why))

    def _key(self, found: Dispatch) -> _Key:
        values, tree = self._jax.tree.flatten(_dynamic(found))
        found.leaves = [private.leaf(self._jax, value) for value in values]
        statics = tuple((name, type(value), value) for name, value in found.statics())
        hash(statics)
        specified = "in_shardings" in found.specified_shardings()
        places = () if specified else tuple(map(private.placed, found.leaves))
        return _Key(tree, statics, tuple(leaf.aval for leaf in found.leaves), places)

    def _rest(self, found: Dispatch, key: _Key) -> Hashable:
        if self._feed is None:
            return key
        without = self._feed.without(Call(tuple(found.args), found.kwargs))
        return self._key(private.dispatch(self._internals, self._function, without.args, without.kwargs))

    def _sizes(self, key: _Key, about: Args | None, leaves: list[Leaf]) -> Sizes:
        """A call's signature, with the sizes of its arrays apart."""
        if about is not None:
            self._names[key.tree] = [str(row["argument"]) for row in about["inputs"] or () if row["type"] != "None"]
        named = self._names[key.tree]
        if len(named) != len(leaves):
            return Sizes({}, key)
        shapes = {name: tuple(leaf.aval.shape) for name, leaf in zip(named, leaves, strict=True)}
        types = tuple((leaf.aval.dtype, bool(leaf.aval.weak_type)) for leaf in leaves)
        return Sizes(shapes, (key.tree, key.statics, types, key.places))

    def _about(self, found: Dispatch) -> Args:
        about = self._describer.describe(found, self._told.function, sys._getframe())
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
        self._as_traced: _Key | None = None
        self._values: dict[str, Any] = {}
        self._missing = ""

    def into(self, call: Call) -> tuple[Call, str]:
        """The call with what earlier ones returned; why it is not known, where it is not: then with what was last."""
        return self._with(call, self._values), self._missing

    def without(self, call: Call) -> Call:
        """The call with None in the place of what is fed."""
        return self._with(call, dict.fromkeys(self._feed.values()))

    def after(self, call: Call, found: Dispatch, key: _Key) -> None:
        """Take down what this call returns."""
        if self._missing:
            return
        if self._traced is None:
            try:
                self._traced = private.Traced(self._jax, self._function, call.args, call.kwargs)
            except Exception as error:
                self._missing = f"the function cannot be traced: {first_line(error)}"
                return
            self._as_traced = key
        assert self._as_traced is not None
        same = (key.tree, key.statics) == (self._as_traced.tree, self._as_traced.statics)
        alike = same and all(map(private.is_alike, self._as_traced.avals, key.avals))
        avals = self._traced.results(key.avals) if alike else None
        place = private.place_of_results(found.leaves) if not found.specified_shardings() else None
        if avals is None or place is None:
            self._missing = _ONCE if avals is None else _SPREAD
            return
        result = self._traced.tree(avals, *place)
        self._values = {name: _at(result, path) for path, name in self._feed.items()}

    def _with(self, call: Call, values: Mapping[str, Any]) -> Call:
        args, kwargs = list(call.args), dict(call.kwargs)
        for name, value in values.items():
            at = self._parameters.index(name)
            if at < len(args):
                args[at] = value
            else:
                kwargs[name] = value
        return Call(tuple(args), kwargs)


def _dynamic(found: Dispatch) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments without the static ones."""
    options = found.options
    static = {at if at >= 0 else at + len(found.args) for at in options.static_argnums}
    args = tuple(None if at in static else value for at, value in enumerate(found.args))
    return args, {name: None if name in options.static_argnames else value for name, value in found.kwargs.items()}


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
