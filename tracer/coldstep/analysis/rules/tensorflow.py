"""What only TensorFlow's words mean: functions traced twice in their first call, since the first trace made variables;
Keras' loops; values that are one key."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.figures import duration
from coldstep.analysis.make_finding import MOST_NAMED, of_compile
from coldstep.model import Compile, Finding, Trace

PAD = ("import tensorflow as tf", "tf.pad(x, [(0, 0)] * {d} + [(0, more)] + [(0, 0)] * (x.shape.rank - {n}))")
"""What pads dimension `d` of x by `more`, with what it imports; `n` is one more than `d`."""

_PART = "second_trace"
_MAKE_BEFORE = (
    "Make the variables before the first call: those of layers with model.build(input_shape), an optimizer's with "
    "optimizer.build(model.trainable_variables), metrics' by giving compile() objects in the place of names and "
    "functions, keras.metrics.BinaryAccuracy(); others in __init__."
)

_LOOPS_OF_KERAS = {"fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"}


def second_traces(trace: Trace) -> Iterator[Finding]:
    """One for each call that was traced twice; what lies within it is part of its cost."""
    twice = {row.id: row for row in trace.compiles if any(segment.part == _PART for segment in row.segments)}
    inner: dict[str, list[Compile]] = {}
    for row in twice.values():
        if row.parent in twice:
            inner.setdefault(str(row.parent), []).append(row)
    for row in twice.values():
        if row.parent in twice:
            continue
        names = [name for each in (*inner.get(row.id, ()), row) for name in trace.details[each.id].variables]
        spent = sum(segment.wall_ns for segment in row.segments if segment.part in (_PART, "variables"))
        first = next(segment.wall_ns for segment in row.segments if segment.part != _PART)
        made = f"{len(names)} variable{'s' if len(names) > 1 else ''}" if names else "variables"
        yield of_compile(
            trace,
            row,
            "second_trace",
            "note",
            f"{_outermost(trace, row).function} was traced twice in its first call, which made {made}",
            cost_ns=spent,
            evidence=[
                f"the first trace, {duration(first)}, was thrown away",
                *(
                    [f"made: {', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''}"]
                    if names
                    else []
                ),
            ],
            advice=_MAKE_BEFORE,
        )


def _outermost(trace: Trace, row: Compile) -> Compile:
    """What was called: a helper within it is nothing that the user knows."""
    by_id = {each.id: each for each in trace.compiles}
    while row.parent in by_id:
        row = by_id[str(row.parent)]
    return row


def is_trainers_loop(compile_: Compile) -> bool:
    """Whether it is a tf.function that Keras makes for a loop over batches, named after the method that runs it."""
    owner, _, method = compile_.function.rpartition(".")
    return compile_.stack == "tensorflow" and bool(owner) and method in _LOOPS_OF_KERAS
