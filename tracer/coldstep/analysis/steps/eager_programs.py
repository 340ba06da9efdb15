"""Finds the eager operations that compile a small program again and again while a program steps, by operation and line.

One of them that compiles now and then counts for no step; one that does so in step after step keeps a loop from
settling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from coldstep._util.figures import times
from coldstep._util.slotted import slotted
from coldstep.analysis.make_finding import About, finding
from coldstep.analysis.remedies.blocks import Block, block_around
from coldstep.analysis.remedies.jitted import jitted, made_anew
from coldstep.analysis.remedies.made_at_once import MADE
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, remedies
from coldstep.analysis.rules.jax import DEFINED_ONCE, INTO_THE_FUNCTION, TAKE_FUNCTIONS
from coldstep.model import Compile, Finding, Location, Remedy, SettlingCause, Trace
from coldstep.rows.intervals import Steps, alone

ONE_JIT = "Wrap the initialisation in one jax.jit: one program instead of many."
SOME_JIT = "Wrap what runs them in jax.jit: one program instead of many."
_AGAIN_AND_AGAIN = 3  # steps behind the first one in which an operation compiled, or compiles for inputs alike


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
        takes_functions = self.programs[0].function in TAKE_FUNCTIONS
        return takes_functions and self._types == 1 and len(self.programs) >= _AGAIN_AND_AGAIN

    @property
    def is_for_few_types(self) -> bool:
        """Whether it compiled again for types that it was compiled for before, more often than for others."""
        return 2 * self._types <= len(self.programs)

    @property
    def _types(self) -> int:
        return len({tuple(leaf.type for leaf in row.inputs or ()) for row in self.programs})

    def text(self, steps: int = 0) -> str:
        """What it does, in half a sentence; in so many steps, where it counts for any."""
        text = f"{self.programs[0].function} compiled {times(len(self.programs))}"
        text = f"{text}, for inputs of the same types" if self.has_equal_inputs else f"the eager operation {text}"
        return f"{text}, in {steps} steps or right behind them" if steps else text

    @property
    def advice(self) -> str:
        """What to change."""
        return DEFINED_ONCE if self.has_equal_inputs else INTO_THE_FUNCTION


def is_small_program(row: Compile) -> bool:
    """Whether a compile is of an operation that runs by itself, outside of any jitted function."""
    return row.origin == "eager" and row.outcome != "traced_only" and row.parent is None


def is_paid_once(row: Finding) -> bool:
    """Whether a finding is of an initialisation's programs, or of what a cache does not keep: a process pays it once,
    and no step and no loop again."""
    made = any(each.id.startswith(MADE) for each in row.remedies)
    return row.kind == "cache_miss" or (row.kind == "eager_compiles" and (made or row.advice in (ONE_JIT, SOME_JIT)))


def repeated(trace: Trace) -> list[Repeated]:
    """Those that compile again and again, of all processes."""
    counts_for = _steps(trace)
    groups: dict[tuple[int, str, tuple[str, int] | None], Repeated] = defaultdict(lambda: Repeated([], []))
    for row in trace.compiles:
        at = counts_for.get(row.segments[0].interval)
        if is_small_program(row) and (at is not None or row.function in TAKE_FUNCTIONS):
            place = (row.caller.file, row.caller.line) if row.caller is not None else None
            group = groups[row.process, row.function, place]
            group.programs.append(row)
            if at is not None:
                group.steps.append(at)
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
            yield SettlingCause(ordinals[own[0]], group.programs[0].id, None, group.text(len(own)), [], group.advice)


def told(trace: Trace, group: Repeated) -> Finding:
    """One of these as a finding."""
    first = trace.intervals[group.steps[0] if group.steps else group.programs[0].segments[0].interval]
    block = block_around(trace.blocks, group.place) if group.place is not None and group.has_equal_inputs else None
    anew = made_anew(block, group.place.line) if block is not None and group.place is not None else ""
    text = group.text(len(set(group.steps)) if group.in_steps else 0)
    text = f"{text}: each call makes {anew} anew" if anew else text
    mended = (into_one_program(trace, group.programs) if group.is_for_few_types else []) or None
    cost_ns, refs = sum(row.wall_ns for row in group.programs), [row.id for row in group.programs]
    about = About(cost_ns=cost_ns, advice=group.advice, refs=refs, remedies=mended)
    return finding("eager_compiles", text, at=first, location=group.place, **about)


_INTO_ONE_PROGRAM = Row(
    "Compile {function}, the function around it, as one program.", instead="{written}", changes="rounding"
)


def into_one_program(trace: Trace, programs: Sequence[Compile]) -> list[Remedy]:
    """The function that runs most of these, jitted; none where it may do more than to compute, or half of what they
    cost is spent elsewhere."""
    spent: dict[tuple[str, int], int] = defaultdict(int)
    blocks: dict[tuple[str, int], tuple[Block, str]] = {}
    for row in programs:
        if (around := jittable_around(trace, row)) is not None:
            block = around[0]
            spent[block.file, block.first] += row.wall_ns
            blocks[block.file, block.first] = around
    most = max(spent, key=lambda key: spent[key], default=None)
    if most is None or 2 * spent[most] < sum(row.wall_ns for row in programs):
        return []
    if (written := jitted(*blocks[most])) is None:
        return []
    names = {"function": written.location.function, "written": written.code}
    case = Case(f"jax.eager:{written.location.function}", names, Place(written.location, lines=written.lines))
    return remedies(_INTO_ONE_PROGRAM, case)


def jittable_around(trace: Trace, row: Compile) -> tuple[Block, str] | None:
    """The outermost function around a program that may be jitted as it is, and by what."""
    within = trace.details[row.id].within
    if within is None or within.jittable is None or (block := block_around(trace.blocks, within.jittable)) is None:
        return None
    return block, within.by
