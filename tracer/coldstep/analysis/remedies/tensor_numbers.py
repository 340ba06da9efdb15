"""The type that a Python number, of which TensorFlow compiles in each value, may have as a tensor."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from coldstep.analysis.remedies.blocks import Block, read
from coldstep.analysis.remedies.static_numbers import only_computes, operations


def type_beside(block: Block, argument: str, types: Mapping[str, str]) -> str:
    """The type of an array that the number is computed with: "f32[3]"; "" where the function may need the number
    itself, or computes with arrays of several dtypes. `types`: of all that it is given."""
    function = block.tree
    if not isinstance(function, ast.FunctionDef):
        return ""
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    if not only_computes(function, argument, parameters - {argument}):
        return ""
    above = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == argument]
    names = {name for node in uses for each in operations(node, above) for name in read(each)}
    arrays = {path: each for path, each in types.items() if "[" in each}
    beside = [each for path, each in arrays.items() if path.partition(".")[0].partition("[")[0] in names]
    by_dtype = {each.partition("[")[0]: each for each in beside or arrays.values()}
    return by_dtype.popitem()[1] if len(by_dtype) == 1 else ""
