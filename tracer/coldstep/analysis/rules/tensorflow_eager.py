"""What to change where TensorFlow runs steps operation by operation: a switch that is on, a step that no tf.function is
around."""

from __future__ import annotations

import ast

from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.remedies.edits import is_call, method_owner, statements
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, remedies
from coldstep.analysis.rules.keras import LOOPS
from coldstep.analysis.rules.tensorflow_traced import hindrance, is_in_loop, traced
from coldstep.model import Finding, Remedy, Trace

_SWITCH = "tf.config.run_functions_eagerly(True): "
_KERAS = "run_eagerly of "
_OWN = " outside of any tf.function: "
"""How the texts begin, or what stands in them."""
_SWITCHED = Row(
    "Take the switch away, or set it only around what needs it: it is for debugging, and is on for all of the program. "
    "{first}",
    instead="{statement}",
    changes="rounding",
)
_BY_KERAS = Row(
    "Take run_eagerly=True out of compile(): it is for debugging. {first}", above="{switch} = False", changes="rounding"
)
_TRACED = Row(
    "Have TensorFlow trace the function once, and run it as a graph. What it reads of Python's own, numbers and lists, "
    "stays as it is in the first call.",
    instead="{written}",
    changes="rounding",
)
_KEPT = Row(
    "Put @tf.function above {function}, once line {line} no longer keeps it from that: {code}. While TensorFlow "
    "traces, no tensor has a value to read or to keep: return such tensors, and read them where {function} "
    "is called."
)
_APART = Row(
    "Put what one step computes, from the tape to the optimizer, into a function of its own with @tf.function above "
    "it; read values, and print, outside of it."
)


def made_graphs(trace: Trace, row: Finding) -> list[Remedy]:
    """What to do about one of these; `row.advice` is what has to be done first, where there is such a thing."""
    if not row.text.startswith((_SWITCH, _KERAS)) and _OWN not in row.text:
        return []
    at = row.location
    line = trace.code.get((at.file, at.line), "") if at is not None else ""
    place, first = Place(at, line=line) if at is not None else NOWHERE, row.advice
    if row.text.startswith(_SWITCH):
        statement = "" if first else _switched_off(line)
        id_, names = "tensorflow.run_functions_eagerly", {"first": first, "statement": statement}
        return remedies(_SWITCHED if statement else Row(_SWITCHED.text), Case(id_, names, place))
    if row.text.startswith(_KERAS):
        model = "" if first else method_owner(line, [*LOOPS])
        names = {"first": first, "switch": f"{model}.run_eagerly"}
        return remedies(_BY_KERAS if model else Row(_BY_KERAS.text), Case("keras.run_eagerly", names, place))
    return _own_step(trace, row)


def _switched_off(line: str) -> str:
    """A line that does nothing but set the switch, with the switch off; "" of any other."""
    if not is_call(line, "run_functions_eagerly", "experimental_run_functions_eagerly"):
        return ""
    match statements(line.strip()):
        case [ast.Expr(value=ast.Call(func=called))]:
            return f"{ast.unparse(called)}(False)"
    return ""


def _own_step(trace: Trace, row: Finding) -> list[Remedy]:
    at = row.location
    block = block_around(trace.blocks, at) if at is not None else None
    id_ = f"tensorflow.eager_step:{at.function if at is not None else ''}"
    if at is None or block is None or not isinstance(block.tree, ast.FunctionDef) or is_in_loop(block, at.line):
        return remedies(_APART, Case(id_, {}))
    names = {"function": block.tree.name}
    if (kept := hindrance(block)) is not None:
        code = block.lines[kept.lineno - block.first].strip()
        return remedies(_KEPT, Case(id_, {**names, "line": str(kept.lineno), "code": code}))
    if row.advice:
        return remedies(Row("{advice}"), Case(id_, {"advice": row.advice}))
    if (written := traced(block)) is None:
        return remedies(_APART, Case(id_, {}))
    return remedies(_TRACED, Case(id_, {"written": written.code}, Place(written.location, lines=written.lines)))
