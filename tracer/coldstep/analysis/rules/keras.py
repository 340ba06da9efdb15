"""What to change where Keras compiles what the user wrote for it: steps that JAX cannot trace."""

from __future__ import annotations

from coldstep.analysis.remedies.edits import method_owner
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, remedies
from coldstep.analysis.rules.tensorflow import LOOPS_OF_KERAS
from coldstep.model import Compile, Remedy, Trace

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
    names = {"instead": instead, "model": method_owner(line, [*LOOPS_OF_KERAS])}
    return remedies(_EAGERLY, Case(f"keras.failed:{row.function}", names, Place(caller, line)))
