"""TensorFlow's own rule for which graph a call gets, asked before the call: types of arguments, and a cache of them.

Nothing is traced: what stands in the cache for a graph is its type alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coldstep._util.slotted import slotted
from coldstep_collectors.tensorflow._private import names
from coldstep_collectors.tensorflow._private.hooks import rest_name
from coldstep_collectors.values import attribute


@slotted
class Asked:
    """A call, and the graph that it gets. Live objects."""

    graph: int
    """Which of the function's graphs."""
    is_new: bool
    """Whether it is made for this call."""
    type: Any
    """The type of the call."""
    made: Any
    """The type of the graph."""
    context: Any
    """Under what the call is made."""
    args: tuple[Any, ...]
    """The arguments in their places."""
    kwargs: dict[str, Any]
    """Those that have none."""


@slotted
class _Graph:
    """What stands for a graph."""

    function_type: Any
    number: int


class Variants:
    """The graphs that a `tf.function` has, and will have."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._cache = names.CACHE.find()()
        self._count = 0
        known = getattr(getattr(function, "_function_cache", None), "_primary", None) or ()
        self.has_traced = bool(known)
        """Whether the function has graphs already."""
        for context, type_ in known:
            self._add(type_, context)

    def ask(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Asked:
        """Take a call. Raises what TensorFlow raises for arguments that it refuses."""
        function = self._function
        about = function.function_type, function._default_values, function._is_pure
        bound = names.CANONICAL.find()(args, kwargs, *about)
        given, signature = bound.args, function.input_signature
        if signature is not None:
            given = (*signature, *given[len(signature) :])
        asked, _ = names.TYPE_OF_CALL.find()(given, bound.kwargs, {}, function.function_type)
        context = names.CONTEXT_OF_CALL.find()(self._scope())
        if (known := self._cache.lookup(asked, context)) is not None:
            return Asked(known.number, False, asked, known.function_type, context, bound.args, bound.kwargs)
        relaxes = signature is None and function._reduce_retracing
        made = self._cache.generalize(context, asked) if relaxes else asked
        return Asked(self._add(made, context), True, asked, made, context, bound.args, bound.kwargs)

    @property
    def jitted(self) -> bool:
        """Whether XLA compiles each graph, for every new set of sizes."""
        return bool(self._function._jit_compile)

    @property
    def rest(self) -> str | None:
        """The name of the parameter that takes any number of arguments by position."""
        return rest_name(self._function.function_type)

    def _scope(self) -> Any:
        function = self._function
        made = function._created_variables
        options = function._no_variable_creation_config if made else function._variable_creation_config
        return getattr(options, "scope_type", None)

    def _add(self, type_: Any, context: Any) -> int:
        self._count += 1
        self._cache.add(_Graph(type_, self._count), context)
        return self._count


def missing() -> str:
    """What this version of TensorFlow hides of the facts read here; empty for nothing."""
    needed = {
        "how a call's arguments are typed": (names.CANONICAL, names.TYPE_OF_CALL),
        "what a function keeps its graphs under": (names.CONTEXT_OF_CALL, names.CACHE),
    }
    return next((words for words, hooks in needed.items() if any(hook.form() is None for hook in hooks)), "")


def is_jitted(thing: Any) -> bool:
    """Whether `thing` is a function that XLA compiles."""
    return bool(attribute(thing, "_jit_compile")) and is_function(thing)


def is_function(function: Any) -> bool:
    """Whether `function` is what `tf.function` returns."""
    return all(hasattr(function, name) for name in ("function_type", "_reduce_retracing", "_jit_compile"))
