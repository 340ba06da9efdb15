"""Inductor's compiled graphs: when one is ready, and its next call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from coldstep_collectors.patch import Patch
from coldstep_collectors.torch._private import names


def watch_graphs(made: Callable[[Any], None]) -> Patch | None:
    """Call `made(graph)` for every graph that Inductor has compiled or loaded, once it is ready to be called."""
    if (form := names.COMPILED_GRAPH.form()) is None:
        return None
    graphs, finish = form.find(), form.has[0]
    post_compile = getattr(graphs, finish)

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = post_compile(self, *args, **kwargs)
        made(self)
        return result

    return Patch(graphs, finish, watched)


def around_next_call(
    graph: Any, begin: Callable[[bool, Any], Any], end: Callable[[Any, Any], None]
) -> Callable[[], bool] | None:
    """Call `begin(is_backward, inputs)` and `end(…, result)` around the next call of `graph`, which takes this wrapper
    away itself; the result is None where the call raised.

    Returns a function that checks whether it is still there; None where `graph` cannot be wrapped.
    """
    form = names.COMPILED_GRAPH.form()
    _, call, options = names.COMPILED_GRAPH.attributes(graph) or (None, None, None)
    if form is None or not callable(call):
        return None
    slot = form.has[1]
    is_backward = bool(options.get("is_backward")) if isinstance(options, dict) else False
    weak = ref(graph)
    called = False

    def first(inputs: Any) -> Any:
        nonlocal called
        if called:  # somebody kept this wrapper for good
            return call(inputs)
        called = True
        if (graph := weak()) is not None and getattr(graph, slot) is first:
            setattr(graph, slot, call)
        token = begin(is_backward, inputs)
        result = None
        try:
            result = call(inputs)
            return result
        finally:
            end(token, result)

    setattr(graph, slot, first)
    return lambda: getattr(weak(), slot, None) is first
