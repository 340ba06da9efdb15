"""What only TensorFlow's words mean: functions traced twice in their first call, since the first trace made variables;
errors of a trace; Keras' loops; values that are one key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coldstep._util.expressions import expression
from coldstep._util.figures import duration
from coldstep._util.gathered import gathered
from coldstep.analysis.array_texts import CannotMakeUp, array_in, dtype, literal, shape
from coldstep.analysis.make_finding import MOST_NAMED, About, of_compile
from coldstep.analysis.patterns import differing, dims, dtype_name
from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.remedies.edits import method_owner
from coldstep.analysis.remedies.hoisted import object_above
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, remedies
from coldstep.analysis.rules.keras import LOOPS
from coldstep.model import Compile, Finding, Location, Recompile, Remedy, Trace

if TYPE_CHECKING:
    from coldstep.analysis.advice import Seen

PAD = ("import tensorflow as tf", "tf.pad(x, [(0, 0)] * {d} + [(0, more)] + [(0, 0)] * (x.shape.rank - {n}))")
"""What pads dimension `d` of x by `more`, with what it imports; `n` is one more than `d`."""

_PART = "second_trace"
_MAKE_BEFORE = (
    "Make the variables before the first call: model.build(input_shape) makes those of layers, "
    "optimizer.build(model.trainable_variables) an optimizer's. Give compile() metric objects, "
    "keras.metrics.BinaryAccuracy(), and not their names. Make all others in __init__."
)


def second_traces(trace: Trace) -> Iterator[Finding]:
    """One for each call that was traced twice; what lies within it is part of its cost."""
    twice = {row.id: row for row in trace.compiles if any(segment.part == _PART for segment in row.segments)}
    inner = gathered((str(row.parent), row) for row in twice.values() if row.parent in twice)
    for row in twice.values():
        if row.parent in twice:
            continue
        names = [name for each in (*inner.get(row.id, ()), row) for name in trace.details[each.id].variables]
        spent = sum(segment.wall_ns for segment in row.segments if segment.part in (_PART, "variables"))
        first = next(segment.wall_ns for segment in row.segments if segment.part != _PART)
        made = f"{len(names)} variable{'s' if len(names) > 1 else ''}" if names else "variables"
        text = f"{_outermost(trace, row).function} was traced twice in its first call, which made {made}"
        thrown = f"the first trace, {duration(first)}, was thrown away"
        evidence = [f"{thrown}; with variables made before, it is the only one"]
        if names:
            evidence.append(f"made: {', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''}")
        about = About(severity="note", cost_ns=spent, evidence=evidence, advice=_MAKE_BEFORE)
        yield of_compile(trace, row, "second_trace", text, **about)


def _outermost(trace: Trace, row: Compile) -> Compile:
    """What was called: a helper within it is nothing that the user knows."""
    by_id = {each.id: each for each in trace.compiles}
    while row.parent in by_id:
        row = by_id[str(row.parent)]
    return row


_SINGLETON = "tf.function only supports singleton tf.Variables"
BY_ERROR = {
    _SINGLETON: "The function makes an object with variables (an optimizer, a layer, a metric, a tf.Variable) whenever "
    "it is traced, and TensorFlow allows that in the first call alone, and once: make the object before the function.",
    "must be a compile-time constant": "XLA has to know this operand, a shape or a length, when it compiles, and the "
    "program computes it: give it as a Python number, or as a dimension of a tensor's shape; or do without "
    "jit_compile=True here.",
    "using a `tf.Tensor` as a Python `bool` is not allowed": "The branch needs a value, and TensorFlow traces without "
    "one: tf.cond or tf.where keeps the choice in the graph, and so does an if in code that AutoGraph converts.",
}
"""By what the error has: what to write instead."""
_BEFORE = Row("{instead}", instead="{statement}")


def made_before(trace: Trace, row: Compile, at: Location | None, instead: str) -> list[Remedy]:
    """What to do about an object that makes variables in each call, where the line is seen that makes it."""
    block = block_around(trace.blocks, at) if at is not None and _SINGLETON in trace.details[row.id].error else None
    written = object_above(block, at.line) if block is not None and at is not None else None
    if written is None:
        return []
    case = Case(f"tensorflow.singleton:{row.function}", {"instead": instead, "statement": written.code},
                Place(written.location, lines=written.lines))  # fmt: skip
    return remedies(_BEFORE, case)


def is_trainers_loop(compile_: Compile) -> bool:
    """Whether it is a tf.function that Keras makes for a loop over batches, named after the method that runs it."""
    owner, _, method = compile_.function.rpartition(".")
    return bool(owner) and method in LOOPS


# --- remedies -----------------------------------------------------------------------------------------------------

_AS_TENSOR = "{expression} = tf.cast({expression}, {dtype})"
_OPEN = "input_signature={signature}"
_NOT_FROM_AROUND = (
    "Pass {argument} as an argument, a tensor (tf.constant), or keep it in a tf.Variable, and make the tf.function "
    "once: "
)

REMEDIES = {
    "shape": Row(
        "Leave the dimension that varies open, tf.function(…, input_signature=[tf.TensorSpec([None, …])]), or "
        "reduce_retracing=True, which opens it in one trace more (under jit_compile=True XLA still compiles for each "
        "size); or {fixed}.",
        keyword=_OPEN,
    ),
    "relaxed shape": Row(
        "TensorFlow has left the dimension open by itself, so this happens once. To save this trace, too, open it "
        "before the first call, tf.function(…, input_signature=[tf.TensorSpec([None, …])]).",
        keyword=_OPEN,
    ),
    "shape of XLA": Row("XLA compiles for each size, however open TensorFlow's own trace is: {fixed}.", changes="data"),
    "value of XLA": Row(
        "XLA compiles for each shape, and for each value that a shape depends on, without a word from TensorFlow: keep "
        "both the same at every call, or do without jit_compile=True here, which rounds in another way.",
        changes="rounding",
    ),
    "baked_constant": Row(
        "XLA has compiled in the value of {argument}, since a shape or an operation needs it, and compiles for each: "
        "keep its values few, or do without jit_compile=True here, which rounds in another way.",
        changes="rounding",
    ),
    "slice of XLA": Row(
        "XLA has to know where a tf.slice begins, and compiles for each value of {argument}. Its own dynamic_slice "
        "takes the begin as the program runs; it moves a begin that is too far on, where tf.slice raises an error.",
        instead="{rewritten}",
        changes="rounding",
    ),
    "relaxed shape of Keras": Row(
        "TensorFlow has left the dimension open by itself, so this happens once for each model. To save this trace, "
        "too, make all batches that Keras is given equally large: {fixed}.",
        changes="data",
    ),
    "shape of Keras": Row(
        "Keras makes the tf.function of this loop, and compiles it for the sizes of the batches that it is given: "
        "{fixed}.",
        changes="data",
    ),
    "type": Row("Pass {argument} in its final form at the first call, a tensor instead of None or a number."),
    "retracing": Row(
        "TensorFlow names three reasons: the tf.function is made anew (in a loop; by Keras for each model and at each "
        "compile()): make it once; its tensors have other shapes: reduce_retracing=True opens them; it is given Python "
        "values: pass tensors. Which it was, coldstep run shows."
    ),
    "requires_grad": Row("Give {argument} the same trainable at every call: each is a trace of its own."),
    "aliasing": Row("Pass {argument} as a variable of its own at every call, or always as the same one."),
    "python_scalar": Row(
        "Pass {argument} as a tensor, tf.constant({argument}, dtype=…) with the dtype that it is computed with: each "
        "value of a Python number, bool or string is traced. Where the code needs the value itself, keep its values "
        "few.",
        above=_AS_TENSOR,
        each=True,
        changes="rounding",
    ),
    "module_attribute": Row(_NOT_FROM_AROUND + "an attribute is read when the function is traced, and never again."),
    "global": Row(_NOT_FROM_AROUND + "a global is read when the function is traced, and never again."),
    "closure": Row(_NOT_FROM_AROUND + "it is read when the function is traced, and never again."),
    "pytree": Row("Give {argument} the same structure (keys, lengths, node types) at every call."),
    "longer list": Row(
        "Only the length of {argument} varies, and its elements are alike: pass one tensor of them, "
        "tf.stack({argument}) (np.array of numbers), and leave its length open, tf.function(…, "
        "input_signature=[tf.TensorSpec([None, …]), …])."
    ),
    "keyword": Row("Call with the same arguments each time."),
    "config": Row("Call the function under the same {argument} each time: it is part of what a trace is kept for."),
    "new_function": Row(
        "Make the tf.function once, outside the loop: each one has traces of its own. (Keras makes a new one at each "
        "model.compile().)"
    ),
    "model of Keras": Row(
        "Make {model} once, compile() it once, and keep it (functools.cache keeps what a function makes): Keras traces "
        "the steps of each model that is made anew, over the same layers, too."
    ),
    "trainable of Keras": Row(
        "Which weights train is compiled into the step: each stage of a training that freezes or thaws some needs a "
        "compile of its own, and one is enough.",
        how="none",
    ),
    "model compiled again": Row(
        "compile() the model once, and set its rate where {again} compiles it again, with nothing else new: "
        "{model}.optimizer.learning_rate = … (and {model}.reset_metrics(), for train_on_batch). After each compile() "
        "Keras traces the model's steps anew, and its optimizer begins anew, too.",
        changes="numerics",
    ),
    "identity": Row(
        "Make the object behind {argument} once, and keep it: TensorFlow knows it by identity, traces for each new "
        "one, and keeps the traces of those that are gone."
    ),
}
"""By cause, or by pattern and cause: what to change."""
# TensorFlow 2.9: "5 out of the last 9 calls to <function train_step at 0x7f0a> triggered tf.function retracing"
_RETRACING = "triggered tf.function retracing"
# Python: "@tf.function(jit_compile=True)"
_XLA = expression(r"\bjit_compile\s*=\s*True\b")


def chosen(trace: Trace, row: Recompile, seen: Seen, key: str | None) -> str | None:
    """The key of a row that fits this call; else `key`."""
    below = bool(trace.details[row.compile].evidence)
    return _of_xla(row, seen) if below and not (seen.within and row.cause == "shape") else key or _of_a_trace(row, seen)


def _of_xla(row: Recompile, seen: Seen) -> str:
    if seen.rewritten is not None:
        return "slice of XLA"
    return {"baked_constant": "baked_constant", "shape": "shape of XLA"}.get(row.cause, "value of XLA")


def _of_a_trace(row: Recompile, seen: Seen) -> str | None:
    if row.cause == "shape" and seen.within:
        return "relaxed shape of Keras" if row.pattern == "relaxed" else "shape of Keras"
    if row.cause == "module_attribute" and seen.within and (row.argument or "").endswith(".trainable"):
        return "trainable of Keras"
    if row.cause == "new_function" and seen.within:
        return "model compiled again" if seen.again else "model of Keras"
    if row.cause == "shape" and _XLA.search(seen.place.decorator):
        return "shape of XLA"  # an open signature would save the traces, and hide the compiles
    return "retracing" if any(_RETRACING in line for line in row.evidence) else None


def names(row: Recompile, seen: Seen) -> dict[str, str]:
    """What the rows are filled in with, beside what every stack's are."""
    return {
        "dtype": f"tf.{dtype}" if (dtype := dtype_name(seen.beside)) else "",
        "signature": _signature(row, seen),
        "model": method_owner(seen.place.line, [*LOOPS]) or "the model",
        "again": seen.again,
    }


def _signature(row: Recompile, seen: Seen) -> str:
    """The signature for all sizes of what varies; "" where a parameter is no array."""
    varies = {change.argument: differing(change.before, change.after) for change in row.changes}
    specs = []
    for name, type_ in seen.inputs.items():
        sizes = ["None" if at in varies.get(name, ()) else size for at, size in enumerate(dims(type_))]
        dtype = dtype_name(type_)
        if not dtype or not all(size == "None" or size.isdecimal() for size in sizes):
            return ""
        specs.append(f"tf.TensorSpec([{', '.join(sizes)}], tf.{dtype})")
    return f"[{', '.join(specs)}]" if specs else ""


def value(path: str, text: str) -> str:
    """An expression for a value of that text. Raises CannotMakeUp."""
    if (array := array_in(path, text)) is None:
        return literal(path, text)
    name = "string" if array.dtype == "string" else dtype(array.dtype)
    if name is None or array.flags - {"variable"} or array.layout or array.place:
        raise CannotMakeUp(f"{path} is {text}")
    made = f"tf.zeros({shape(array)}, tf.{name})"
    return f"tf.Variable({made})" if "variable" in array.flags else made
