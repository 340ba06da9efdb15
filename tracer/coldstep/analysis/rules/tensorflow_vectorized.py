"""Calls that vectorize (jacobian, batch_jacobian, vectorized_map): outside of any `tf.function` each makes a function
of its own, and traces it."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.figures import times
from coldstep._util.gathered import gathered
from coldstep.analysis.make_finding import of_compile
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, remedies
from coldstep.model import Finding, Trace

_LEAST = 3
_PLACE = "/python/ops/parallel_for/"
_IN_A_FUNCTION = Row(
    "Put what makes this call into a function with @tf.function above it, from the tape on: TensorFlow then traces it "
    "once for each type of its arguments. Numbers that change have to be tensors, and variables are made outside of it."
)


def made_in_each_call(trace: Trace) -> Iterator[Finding]:
    """One finding for each line of the user's that does so again and again."""
    lines = gathered(
        ((row.process, row.caller.file, row.caller.line), row)
        for row in trace.compiles
        if row.stack == "tensorflow" and row.parent is None and row.caller is not None and _PLACE in row.key
    )
    mended = remedies(_IN_A_FUNCTION, Case("tensorflow.vectorized", {}))
    for rows in (rows for rows in lines.values() if len(rows) >= _LEAST):
        text = f"TensorFlow traced a function of its own {times(len(rows))}"
        text += ": the call that vectorizes in this line makes one each time, outside of a tf.function"
        cost_ns, refs = sum(row.wall_ns for row in rows), [row.id for row in rows]
        yield of_compile(trace, rows[0], "eager_compiles", text, cost_ns=cost_ns, refs=refs, remedies=mended)
