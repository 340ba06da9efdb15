"""What to change where Keras runs on TensorFlow: models that are made anew, a compiled model that is called itself."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.figures import listed
from coldstep._util.gathered import gathered
from coldstep.analysis.make_finding import About, of_compile
from coldstep.analysis.remedies.edits import is_call, method_owner
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, remedies
from coldstep.model import Compile, Finding, Remedy, Trace

_LEAST_MODELS = 3  # at one line: of two, one may be another's copy
_KEPT = Row(
    "Keras traces the steps of each model by itself, and again after each compile(). Where one at a time is enough (in "
    "a cross-validation), make and compile() the model once, before the loop; build it and its optimizer "
    "(model.build(…), model.optimizer.build(model.trainable_variables)); keep what they begin with, first = "
    "[each.numpy() for each in model.variables + model.optimizer.variables]; and assign that back where a new model "
    "was made. Each then begins with the same weights.",
    changes="numerics",
)

_LOADED = Row(
    "Keras traces the steps of each model by itself. Make or load the model once, outside of the loop or of the "
    "function that predicts, and use that one each time. Where the weights differ, as in folds or an ensemble, one "
    "model can take them in turn: model.set_weights(…)."
)
_TRAINS = ".fit"


def models_made_anew(trace: Trace) -> Iterator[Finding]:
    """Models that are built alike, one after the other at one line, each of which compiles the same steps."""
    alike = gathered(
        ((row.process, layout, row.caller.file, row.caller.line), row)
        for row in trace.compiles
        if (layout := trace.details[row.id].layout) and row.caller is not None
    )
    trained = {key[:2] for key, rows in alike.items() if any(_trains(row) for row in rows)}
    for (process, layout, *_), rows in alike.items():
        steps: dict[str, dict[str, Compile]] = {}
        for row in rows:
            steps.setdefault(row.function, {}).setdefault(trace.details[row.id].identity, row)
        steps = {name: of_step for name, of_step in steps.items() if len(of_step) >= _LEAST_MODELS}
        if not steps:
            continue
        models = min(map(len, steps.values()))
        later = [row for of_step in steps.values() for row in [*of_step.values()][1:]]
        trains = (process, layout) in trained
        if not trains and not _goes_on(trace, {row.id for row in later}):
            continue
        made = remedies(_KEPT if trains else _LOADED, Case(f"keras.made_anew:{rows[0].function}", {}))
        text = f"{listed(sorted(steps), len(steps))} compiled for each of {models} models that are built alike"
        cost_ns, refs = sum(row.wall_ns for row in later), [row.id for row in later]
        about = About(severity="note", cost_ns=cost_ns, refs=refs, remedies=made)
        yield of_compile(trace, later[0], "repeat_offender", text, **about)


def _trains(row: Compile) -> bool:
    return _TRAINS in row.function or "train_on_batch" in row.function


def _goes_on(trace: Trace, later: set[str]) -> bool:
    """Whether the last of their steps still compiled: models that are kept, and used in turn, are wanted."""
    kinds = {(row.process, row.name) for row in trace.intervals if later.intersection(row.compiles)}
    last = {(row.process, row.name): row for row in trace.intervals if row.kind == "step"}
    return all(later.intersection(last[kind].compiles) for kind in kinds if kind in last)


_DIRECT = " runs operation by operation where the program calls it itself"
_COMPILED_CALL = Row(
    "Keras compiles the functions of its loops, and no direct call. Compile what a call runs, model.call = "
    "tf.function(model.call) (with jit_compile=True by XLA), or call model.predict_on_batch(x).",
    under="{statement}",
    changes="rounding",
)


def called_itself(trace: Trace, row: Finding) -> list[Remedy]:
    """What to do about a model that was compiled, and is then called itself; its place is the line that compiled it."""
    if _DIRECT not in row.text:
        return []
    at = row.location
    line = trace.code.get((at.file, at.line), "") if at is not None else ""
    model = method_owner(line, ["compile"]) if is_call(line, "compile") else ""
    statement = f"from tensorflow import function as traced\n{model}.call = traced({model}.call)" if model else ""
    return remedies(_COMPILED_CALL, Case(f"keras.uncompiled:{model}", {"statement": statement}, Place(at, line=line)))
