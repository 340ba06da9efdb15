"""The ledger of a process in which other threads than the one that entered the trace turn out to run its steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from coldstep.loading.row_types import Slice, StepRow
from coldstep.loading.slices import Rows
from coldstep.model import UNATTRIBUTED
from coldstep.recording.device_tracks import EXECUTE
from coldstep.rows.ledger import Open, Partition

Ledger = list[tuple[int, bool, str]]


def ledger_of_owners(rows: Rows) -> Ledger:
    """`rows.ledger`, with the time of each step as the thread that ran it spent it: while the program ran, nobody knew
    that it was a step. Device time within unattributed time is as it was."""
    elsewhere = [step for step in rows.steps if _tid(step, rows) != rows.run.tid]
    if not elsewhere:
        return rows.ledger
    before = [(ns, phase) for ns, _, phase in sorted(rows.ledger, key=itemgetter(0, 1))]
    anew = _replayed(rows, elsewhere)
    times = {ns for ns, _ in [*before, *anew]} | {ns for step in elsewhere for ns in (step.start, step.end)}
    steps = sorted((step.start, step.end) for step in elsewhere)
    ledger: Ledger = []
    for ns in sorted(times):
        phase = _at(before, ns)
        at = bisect_right(steps, (ns, rows.stop)) - 1
        if at >= 0 and ns < steps[at][1] and ((own := _at(anew, ns)) != UNATTRIBUTED or phase != EXECUTE):
            phase = own
        ledger.append((ns, True, phase))
    return ledger


def _replayed(rows: Rows, steps: Sequence[StepRow]) -> list[tuple[int, str]]:
    """What the partition would have said, had these steps been marked."""
    changes: list[tuple[int, str]] = []
    partition = Partition(rows.start, rows.run.tid, lambda ns, phase: changes.append((ns, phase)), rows.vocabulary)
    pieces = [piece for piece in rows.slices if piece.is_phase and piece.start < piece.end]
    # at one time: what ends before what begins, the innermost of it first
    turns: list[tuple[int, int, int, Slice | StepRow]] = []
    for piece in pieces:
        turns += [(piece.start, 2, -piece.end, piece), (piece.end, 0, -piece.start, piece)]
    for step in steps:
        turns += [(step.start, 1, 1, step), (step.end, 1, 0, step)]
    open_: dict[int, Open] = {}
    for ns, _, begins, what in sorted(turns, key=lambda turn: turn[:3]):
        if isinstance(what, StepRow):
            partition.cut(ns, _tid(what, rows) if begins else None)
        elif id(what) in open_:
            partition.end(ns, what.track.tid, open_.pop(id(what)))
        else:
            open_[id(what)] = partition.begin(ns, what.track.tid, what.category)
    return changes


def _at(ledger: Sequence[tuple[int, str]], ns: int) -> str:
    """The phase of that time: of several that begin then, the last."""
    at = bisect_right(ledger, ns, key=lambda row: row[0]) - 1
    return ledger[at][1] if at >= 0 else UNATTRIBUTED


def _tid(step: StepRow, rows: Rows) -> int:
    return int(step.args.get("tid", rows.run.tid))
