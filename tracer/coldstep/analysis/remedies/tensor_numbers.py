"""The type that a Python number may have as a tensor, where a function does no more than compute with it."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from coldstep.analysis.remedies.blocks import Block, read
from coldstep.analysis.remedies.static_numbers import only_computes, operations

_CASTS = {"astype", "cast", "saturate_cast", "bitcast"}


def type_beside(block: Block, argument: str, types: Mapping[str, str]) -> str:
    """The type of an array of floats that the number is computed with: "f32[3]"; "" where the function may need the
    number itself, or computes with arrays of several dtypes. `types`: of all that it is given."""
    function = block.tree
    if not isinstance(function, ast.FunctionDef):
        return ""
    arrays: dict[str, set[str]] = {}
    for path, type_ in types.items():
        if "[" in type_:
            arrays.setdefault(path.partition(".")[0].partition("[")[0], set()).add(type_)
    if not only_computes(function, argument, {*arrays} - {argument}) or _casts(function):
        return ""
    above = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == argument]
    names = {name for node in uses for each in operations(node, above) for name in read(each)}
    by_dtype = {each.partition("[")[0]: each for name in sorted(names & {*arrays}) for each in arrays[name]}
    dtype, type_ = by_dtype.popitem() if len(by_dtype) == 1 else ("", "")
    return type_ if dtype.startswith(("f", "bf")) else ""


def _casts(function: ast.FunctionDef) -> bool:
    """Whether it gives arrays another dtype, in which a tensor of their first one cannot be computed with."""
    return any(isinstance(each, ast.Attribute | ast.Name) and _name(each) in _CASTS for each in ast.walk(function))


def _name(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
