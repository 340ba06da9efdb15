"""Inductor's compiled graphs: when one is ready, and its next call."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any
from weakref import ref

from coldstep_collectors._private.patch import Patch

GRAPHS_MODULE = "torch._inductor.output_code"


def watch_graphs(module: ModuleType, made: Callable[[Any], None]) -> Patch | None:
    """Call `made(graph)` for every graph that Inductor has compiled or loaded, once it is ready to be called."""
    graphs = getattr(module, "CompiledFxGraph", None)
    post_compile = vars(graphs).get("post_compile") if graphs is not None else None
    if graphs is None or not callable(post_compile):
        return None

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = post_compile(self, *args, **kwargs)
        made(self)
        return result

    return Patch(graphs, "post_compile", watched)


def around_next_call(
    graph: Any, begin: Callable[[bool, Any], Any], end: Callable[[Any, Any], None]
) -> Callable[[], bool] | None:
    """Call `begin(is_backward, inputs)` and `end(…, result)` around the next call of `graph`, which takes this wrapper
    away itself; the result is None where the call raised.

    Returns a function that says whether it is still there; None where `graph` cannot be wrapped.
    """
    call = getattr(graph, "current_callable", None)
    if not callable(call):
        return None
    options = getattr(graph, "fx_kwargs", None)
    is_backward = bool(options.get("is_backward")) if isinstance(options, dict) else False
    weak = ref(graph)
    called = False

    def first(inputs: Any) -> Any:
        nonlocal called
        if called:  # somebody kept this wrapper for good
            return call(inputs)
        called = True
        graph = weak()
        if graph is not None and graph.current_callable is first:
            graph.current_callable = call
        token = begin(is_backward, inputs)
        result = None
        try:
            result = call(inputs)
            return result
        finally:
            end(token, result)

    graph.current_callable = first
    return lambda: getattr(weak(), "current_callable", None) is first
