"""What a compile of one function, and one of its steps, took in an earlier trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coldstep._util.figures import count
from coldstep._util.median import median
from coldstep._util.slotted import field, slotted

if TYPE_CHECKING:
    from coldstep.model import Trace


@slotted
class Prices:
    """A function's costs; None where unknown."""

    first_ns: int | None = None
    """The first compile of it."""
    again_ns: int | None = None
    """A further one."""
    step_ns: int | None = None
    """A steady step."""
    steps: list[int | None] = field(default_factory=list)
    """Of each call the step, None where that was no steady one; empty where the trace's steps are not these calls."""
    no_steps: str = ""
    """Why they are not."""
    notes: list[str] = field(default_factory=list)
    """What the figures stand on."""


UNKNOWN = Prices()


def prices(trace: Trace, stack: str, function: str) -> Prices:
    """The costs of a function, by the name that the trace has for it. A program loaded from disk is no compile."""
    rows = [row for row in trace.compiles if (row.stack, row.function) == (stack, function)]
    made = [row for row in rows if row.outcome == "compiled"]
    if not made:
        how = "only loaded from disk" if rows else "not compiled"
        return Prices(notes=[f"what a compile takes is not known: {function} was {how} in that trace"])
    again = [row.wall_ns for row in made if row.reason == "recompile"]
    first = [row.wall_ns for row in made if row.reason == "first"] or again
    steady = [row.steady_step_ns for row in trace.cost if row.steady_step_ns is not None]
    based = "" if again else ", a further one taken to be like it"
    notes = [f"costs are those of {count(len(made), 'compile')} of {function} in that trace{based}"]
    again_ns, step_ns = round(median(again)) if again else first[0], steady[0] if len(steady) == 1 else None
    return Prices(first[0], again_ns, step_ns, notes=notes)
