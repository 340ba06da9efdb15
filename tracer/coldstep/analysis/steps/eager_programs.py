"""Finds the eager operations that compile a small program again and again while a program steps, by operation and line.

One of them that compiles now and then counts for no step; one that does so in step after step keeps a loop from
settling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from coldstep._util.figures import times
from coldstep._util.slotted import slotted
from coldstep.analysis.make_finding import finding
from coldstep.model import Compile, Finding, Location, SettlingCause, Trace
from coldstep.rows.intervals import Steps, alone

_AGAIN_AND_AGAIN = (
    3  # steps behind the first one in which an operation compiled; or compiles for inputs of the same types
)
_TAKE_FUNCTIONS = ("scan", "while", "cond", "custom_jvp_call", "custom_vjp_call", "custom_linear_solve")
"""Operations of JAX's that are given functions."""
_ADVICE = (
    "Move this operation into the jitted function, or keep its shapes and its Python numbers (an exponent, an axis, a "
    "size) the same: for each new one it compiles another program."
)
_DEFINED_ONCE = (
    "A function that is made anew is compiled again, whatever it holds: define the function that it is given once, "
    "outside of the loop, and pass the values that change as arguments (of scan and while_loop: in the carry). Another "
    "length, unroll or bound of a loop, another setting of JAX's and cleared caches compile it again, too. Or put the "
    "call into one jitted function."
)


@slotted
class Repeated:
    """An eager operation that compiled in several steps, or between them; or for inputs of the same types."""

    programs: list[Compile]
    """The programs."""
    steps: list[int]
    """The intervals of the steps that they count for, the first step's aside; behind a step is in that step."""

    @property
    def place(self) -> Location | None:
        """The line that runs it."""
        return self.programs[0].caller

    @property
    def in_steps(self) -> bool:
        """Whether it compiles in step after step."""
        return len(set(self.steps)) >= _AGAIN_AND_AGAIN

    @property
    def has_equal_inputs(self) -> bool:
        """Whether it takes functions, and its arrays were alike again and again: what it is given besides differed."""
        types = {tuple(leaf.type for leaf in row.inputs or ()) for row in self.programs}
        return self.programs[0].function in _TAKE_FUNCTIONS and len(types) == 1 < _AGAIN_AND_AGAIN <= len(self.programs)

    @property
    def text(self) -> str:
        """What it does, in half a sentence."""
        text = f"{self.programs[0].function} compiled {times(len(self.programs))}"
        text = f"{text}, for inputs of the same types" if self.has_equal_inputs else f"the eager operation {text}"
        return f"{text}, in {len(set(self.steps))} steps or right behind them" if self.in_steps else text

    @property
    def advice(self) -> str:
        """What to change."""
        return _DEFINED_ONCE if self.has_equal_inputs else _ADVICE


def is_small_program(row: Compile) -> bool:
    """Whether a compile is of an operation that runs by itself, outside of any jitted function."""
    return row.origin == "eager" and row.outcome != "traced_only" and row.parent is None


def repeated(trace: Trace) -> list[Repeated]:
    """Those that compile again and again, of all processes."""
    counts_for = _steps(trace)
    groups: dict[tuple[int, str, tuple[str, int] | None], Repeated] = defaultdict(lambda: Repeated([], []))
    for row in trace.compiles:
        at = counts_for.get(row.segments[0].interval)
        if is_small_program(row) and (at is not None or row.function in _TAKE_FUNCTIONS):
            place = (row.caller.file, row.caller.line) if row.caller is not None else None
            group = groups[row.process, row.function, place]
            group.programs.append(row)
            group.steps += [at] if at is not None else []
    return [group for group in groups.values() if group.in_steps or group.has_equal_inputs]


def _steps(trace: Trace) -> dict[int, int]:
    """By interval, the step for which counts what an operation compiles there; none up to the first step's end."""
    by_index: dict[int, int] = {}
    last: dict[int, int] = {}
    for row in alone(trace.intervals):
        if row.kind == "step":
            last[row.process] = row.index
        if row.process in last and not (row.kind == "step" and row.step == 0):
            by_index[row.index] = last[row.process]
    return by_index


def unsettled(groups: Collection[Repeated]) -> set[int]:
    """The intervals (by index) of the steps for which these count."""
    return {at for group in groups if group.in_steps for at in group.steps}


def causes(groups: Collection[Repeated], steps: Steps) -> Iterator[SettlingCause]:
    """What each of these has to do with the settling of steps of one name."""
    ordinals = {row.index: row.step for row in steps.alone()}
    for group in groups:
        own = sorted({at for at in group.steps if at in ordinals})
        if own and group.in_steps:
            yield SettlingCause(ordinals[own[0]], group.programs[0].id, None, group.text, [], group.advice)


def told(trace: Trace, group: Repeated) -> Finding:
    """One of these as a finding."""
    first = trace.intervals[group.steps[0] if group.steps else group.programs[0].segments[0].interval]
    return finding(
        "eager_compiles",
        "warning",
        group.text,
        process=first.process,
        interval=first.index,
        step=first.step,
        cost_ns=sum(row.wall_ns for row in group.programs),
        location=group.place,
        advice=group.advice,
        refs=[row.id for row in group.programs],
    )
