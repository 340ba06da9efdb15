"""What to change where Keras compiles what the user wrote for it: steps that JAX cannot trace, models made anew."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.figures import listed
from coldstep.analysis.make_finding import of_compile
from coldstep.analysis.remedies.edits import is_call, method_owner, plain_assignment
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, advice, remedies
from coldstep.model import Compile, Finding, Remedy, Trace

LOOPS = {
    "fit": "train", "train_on_batch": "train", "evaluate": "test", "test_on_batch": "test",
    "predict": "predict", "predict_on_batch": "predict",
}  # fmt: skip
"""The methods that run a step over batches, and what Keras calls the step of each: `make_train_function`."""
_TRAINER = "keras/src/backend/jax/trainer.py"
_EAGERLY = Row(
    "{instead} Or let Keras run this model without compiling it, which is slower: run_eagerly=True.",
    above="{model}.run_eagerly = True",
)


def eagerly(trace: Trace, row: Compile, instead: str) -> list[Remedy]:
    """What to do about a failed compile that one of Keras' loops asked for; none of another. `instead`: what to write
    in the function."""
    place, caller = row.location, row.caller
    if place is None or caller is None or not place.file.replace("\\", "/").endswith(_TRAINER):
        return []
    line = trace.code.get((caller.file, caller.line), "")
    names = {"instead": instead, "model": method_owner(line, [*LOOPS])}
    return remedies(_EAGERLY, Case(f"keras.failed:{row.function}", names, Place(caller, line=line)))


_MADE_AGAIN = Row(
    "{advice} Or have Keras trace its step anew wherever that changes: make_{loop}_function(force=True).",
    instead="{statement}",
    changes="numerics",
)


def made_again(trace: Trace, row: Finding) -> list[Remedy]:
    """What to do where a model's step was traced before an assignment that it should see."""
    at = row.location
    compile_ = next((each for each in trace.compiles if each.id in row.refs), None)
    caller = compile_.caller if compile_ is not None else None
    called = trace.code.get((caller.file, caller.line), "") if caller is not None else ""
    line = trace.code.get((at.file, at.line), "") if at is not None else ""
    model = method_owner(called, [*LOOPS])
    loop = next((made for method, made in LOOPS.items() if f".{method}(" in called), "")
    assigned = plain_assignment(line)
    statement = f"{assigned}\n{model}.make_{loop}_function(force=True)" if model and loop and assigned else ""
    names = {"advice": row.advice, "statement": statement, "loop": loop}
    return remedies(
        _MADE_AGAIN if statement else Row("{advice}"), Case(f"keras.stale:{line}", names, Place(at, line=line))
    )


_LEAST_MODELS = 3  # at one line: of two, one may be another's copy
_KEPT = Row(
    "Keras traces the steps of each model by itself, and again after each compile(). Where one at a time is enough (in "
    "a cross-validation), make and compile() the model once, before the loop; build it and its optimizer "
    "(model.build(…), model.optimizer.build(model.trainable_variables)); keep what they begin with, first = "
    "[each.numpy() for each in model.variables + model.optimizer.variables]; and assign that back where a new model "
    "was made. Each then begins with the same weights.",
    changes="numerics",
)


def models_made_anew(trace: Trace) -> Iterator[Finding]:
    """Models that are built alike, one after the other at one line, each of which compiles the same steps."""
    alike: dict[object, list[Compile]] = {}
    for row in trace.compiles:
        if (layout := trace.details[row.id].layout) and row.caller is not None:
            alike.setdefault((row.process, layout, row.caller.file, row.caller.line), []).append(row)
    for rows in alike.values():
        steps: dict[str, dict[str, Compile]] = {}
        for row in rows:
            steps.setdefault(row.function, {}).setdefault(trace.details[row.id].identity, row)
        steps = {name: of_step for name, of_step in steps.items() if len(of_step) >= _LEAST_MODELS}
        if not steps:
            continue
        models = min(map(len, steps.values()))
        later = [row for of_step in steps.values() for row in [*of_step.values()][1:]]
        made = remedies(_KEPT, Case(f"keras.made_anew:{rows[0].function}", {}))
        yield of_compile(
            trace,
            later[0],
            "repeat_offender",
            "note",
            f"{listed(sorted(steps), len(steps))} compiled for each of {models} models that are built alike",
            cost_ns=sum(row.wall_ns for row in later),
            advice=advice(made),
            refs=[row.id for row in later],
            remedies=made,
        )


DIRECT = " runs operation by operation where the program calls it itself"
"""Stands in the text of a finding on a compiled model that is called itself."""
_COMPILED_CALL = Row(
    "Keras compiles the functions of its loops, and no direct call. Compile what a call runs, model.call = "
    "tf.function(model.call) (with jit_compile=True by XLA), or call model.predict_on_batch(x).",
    under="{statement}",
    changes="rounding",
)


def called_itself(trace: Trace, row: Finding) -> list[Remedy]:
    """What to do about a model that was compiled, and is then called itself; its place is the line that compiled it."""
    at = row.location
    line = trace.code.get((at.file, at.line), "") if at is not None else ""
    model = method_owner(line, ["compile"]) if is_call(line, "compile") else ""
    statement = f"from tensorflow import function as traced\n{model}.call = traced({model}.call)" if model else ""
    return remedies(_COMPILED_CALL, Case(f"keras.uncompiled:{model}", {"statement": statement}, Place(at, line=line)))
