"""What to change where Keras compiles what the user wrote for it: steps that JAX cannot trace, or that were traced."""

from __future__ import annotations

from coldstep.analysis.remedies.edits import method_owner, plain_assignment
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, remedies
from coldstep.model import Compile, Finding, Location, Remedy, Trace

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


def eagerly(trace: Trace, row: Compile, _: Location | None, instead: str) -> list[Remedy]:
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
