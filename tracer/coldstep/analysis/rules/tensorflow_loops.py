"""A Python loop over a range in a function that TensorFlow traces, over `tf.range`: AutoGraph then keeps it a loop."""

from __future__ import annotations

import ast

from coldstep.analysis.remedies.blocks import Block, Written, read
from coldstep.analysis.remedies.loops import loop_at
from coldstep.model import Compile, Unrolled


def over_tensor(block: Block, unrolled: Unrolled, _: Compile) -> Written | None:
    """The head of the loop; None where its turns use the number, or do more than to compute what they hand on."""
    function, loop = block.tree, loop_at(block, unrolled.location.line)
    if not isinstance(function, ast.FunctionDef) or not isinstance(loop, ast.For) or loop.orelse:
        return None
    module = next((name for name in ("tf", "tensorflow") if name in read(function)), None)
    match loop.iter:
        case ast.Call(func=ast.Name(id="range") as called, args=[_], keywords=[]) if module is not None:
            counted = isinstance(loop.target, ast.Name) and loop.target.id in {
                n for each in loop.body for n in read(each)
            }
            if counted or not all(isinstance(each, ast.Assign | ast.AugAssign) for each in loop.body):
                return None
            head = block.replaced(called, f"{module}.range", loop.lineno, loop.lineno)
            return block.written(loop.lineno, loop.lineno, head, function.name) if head is not None else None
    return None
