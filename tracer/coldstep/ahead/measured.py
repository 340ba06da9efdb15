"""Of an earlier trace the steps that some calls made, its n-th step being the n-th call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from coldstep._util.figures import count
from coldstep.ahead.forecast_rows import Foretold, Sizes
from coldstep.ahead.work import NotMeasured
from coldstep.rows.intervals import Steps, kinds
from coldstep.signature import array_of

if TYPE_CHECKING:
    from coldstep.model import Compile, Trace

_UNCOMPILED = ("skipped", "limit", "failed")


def steps_of(trace: Trace, foretold: Foretold) -> list[int | None]:
    """How long each call's step took; None where that was no steady one. Raises NotMeasured where the trace's steps
    are not these calls, as far as its compiles show that."""
    whose = (foretold.stack, foretold.function)
    made = {row.id: row for row in trace.compiles if (row.stack, row.function) == whose}
    if not made:
        raise NotMeasured("the function is not among what the trace compiled")
    if foretold.limit_at is not None or any(row.outcome in _UNCOMPILED for row in made.values()):
        raise NotMeasured("not every call runs compiled")
    steps = _kind(trace, made)
    if len(steps) != foretold.calls:
        raise NotMeasured(f"the trace has {count(len(steps), 'step')} for {count(foretold.calls, 'call')}")
    if len(foretold.sizes) != foretold.calls:
        raise NotMeasured("not every call can be judged")
    compiles = {
        (step.step or 0) - (steps[0].step or 0): [made[each] for each in step.compiles if each in made]
        for step in steps.alone()
    }
    varying = _varying(foretold.sizes)
    for number, rows in compiles.items():
        if not all(_is_of(row, foretold.sizes[number].shapes, varying) for row in rows):
            raise NotMeasured(f"step {number} of the trace did not have the sizes of call {number}")
    for call in (row.call for row in foretold.compiles):
        if not compiles.get(call):
            raise NotMeasured(f"call {call} will compile, and step {call} of the trace did not")
    if any(step.label == "steady" and step.measures != "complete" for step in steps):
        raise NotMeasured("the trace's steps end when their work is handed over, not when it is done")
    return [step.wall_ns if step.label == "steady" else None for step in steps]


def _kind(trace: Trace, made: Collection[str]) -> Steps:
    """The steps, of one process and name, in which all of these compiles lie."""
    holding = []
    for steps in kinds(trace.intervals, trace.unfinished).values():
        if held := sum(each in made for step in steps.alone() for each in step.compiles):
            holding.append((steps, held))
    if len(holding) != 1 or holding[0][1] < len(made):
        raise NotMeasured("the trace's compiles of it are not all in steps of one process and name")
    return holding[0][0]


def _varying(rows: Sequence[Sizes]) -> list[str]:
    """The arguments that do not have the same sizes in every call."""
    names = dict.fromkeys(name for row in rows for name in row.shapes)
    return [name for name in names if len({row.shapes.get(name) for row in rows}) > 1]


def _is_of(compile_: Compile, shapes: Mapping[str, tuple[int, ...]], varying: Collection[str]) -> bool:
    """Whether a compile was for those of these shapes that vary."""
    types = {row.argument: array_of(row.type) for row in compile_.inputs or ()}
    dims = {name: type_.dims for name in varying if (type_ := types.get(name)) is not None}
    return dims == {name: ",".join(map(str, shapes[name])) for name in varying if name in shapes}
