"""What TensorFlow's self-test must lead to, by the name of the promise."""

from functools import partial

from coldstep.model import Trace
from coldstep_collectors.checks import compiled, recompiled


def _xla_alone(trace: Trace) -> str | None:
    only = {
        row.id for row in trace.compiles if all(segment.phases.keys() == {"tensorflow.xla"} for segment in row.segments)
    }
    changed = [row for row in trace.recompiles if (row.cause, row.before, row.after) == ("shape", "f32[8]", "f32[6]")]
    rows = [row for row in changed if row.compile in only]
    return f"{rows[0].argument} was f32[8], now f32[6]: XLA compiled without retracing" if rows else None


def _second_trace(trace: Trace) -> str | None:
    rows = [row for row in trace.findings if row.kind == "second_trace"]
    return rows[0].text if rows else None


CHECKS = {
    "compile": partial(compiled, "train_step"),
    "recompile": recompiled,
    "second_trace": _second_trace,
    "xla": _xla_alone,
}
