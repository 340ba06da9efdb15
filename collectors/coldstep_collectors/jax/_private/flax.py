"""Flax NNX's private side: what `nnx.jit` has made of a module before it hands it to JAX.

Written for Flax 0.12. What does not look as it does there is left to whoever asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coldstep._util.slotted import field, slotted
from coldstep.errors import our_errors

_STATICS_LIMIT = 256
_PLAIN = (bool, int, float, str, type(None), tuple)


@slotted
class Module:
    """A module taken apart. It holds the user's values: it must not outlive the hook that asked for it."""

    kind: str
    leaves: list[str] = field(default_factory=list)
    """The path of each array within the module, in JAX's order."""
    statics: list[tuple[str, Any]] = field(default_factory=list)
    """The plain attributes that are compiled in, by path."""
    rest: int = 0
    """A number for all else that is compiled in."""


def taken_apart(value: Any) -> Module | None:
    """The module that stands behind an argument of a function given to `nnx.jit`; None for anything else."""
    if type(value).__name__ != "NodeStates" or type(value).__module__ != "flax.nnx.extract":
        return None
    try:
        [arrays] = value.states
        graph = value._graphdef
        module = Module(graph.nodes[0].type.__name__)
        others: list[Any] = [tuple(graph.nodes)]
        nodes, attributes = iter(graph.nodes), iter(graph.attributes)
        for path, static in _walk(nodes, attributes, "", module.leaves):
            is_plain = isinstance(static, _PLAIN) and len(module.statics) < _STATICS_LIMIT
            (module.statics if is_plain else others).append((path, static))
        module.rest = hash(tuple(others))
    except our_errors():  # another version of Flax, or a module of another kind
        return None
    whole = len(module.leaves) == len(arrays) and all(hasattr(array, "shape") for array in arrays)
    return module if whole and next(nodes, None) is None else None


def _walk(nodes: Iterator[Any], attributes: Iterator[Any], path: str, leaves: list[str]) -> Iterator[tuple[str, Any]]:
    """The static attributes of the next node and all below it; its arrays' paths go to `leaves`."""
    node = next(nodes)
    kind = type(node).__name__
    if kind in ("VariableDef", "ArrayRefDef"):
        leaves.append(path)
    elif kind == "NodeDef":
        for _ in range(node.num_attributes):
            key, value = next(attributes)
            below = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
            match type(value).__name__:
                case "NodeAttr":
                    yield from _walk(nodes, attributes, below, leaves)
                case "LeafAttr":
                    leaves.append(below)
                case _:
                    yield below, value.value
    elif kind != "NodeRef":
        raise TypeError(kind)
