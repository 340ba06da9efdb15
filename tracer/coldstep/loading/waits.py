"""Names unattributed time by what the thread was seen to wait for, and by what the processes below did meanwhile."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import get_args

from coldstep.job.waits import Looks, Member, summed, waits_in, whom
from coldstep.loading.folding import FOLDED
from coldstep.loading.row_types import Slice
from coldstep.loading.slices import Rows
from coldstep.model import UNATTRIBUTED, Interval, Waiting, WaitingHow

_HOWS: dict[str, WaitingHow] = {how: how for how in get_args(WaitingHow)}


def fill_waiting(processes: Sequence[Rows]) -> None:
    """Fill in `waiting` of each interval in which the process was seen to wait, of all processes of a job at once."""
    if not any(rows.waits for rows in processes):
        return
    members = [member(rows) for rows in processes]
    for rows, own in zip(processes, members, strict=True):
        for interval, waiting in _waiting(rows, own, _near(rows, processes, members), sys.maxsize):
            interval.waiting = summed(waiting)


def waiting_until(
    moment: int, rows: Rows, own: Member, processes: Sequence[Rows], members: Sequence[Member]
) -> list[Waiting]:
    """What a process of the job was seen to wait for up to a moment of the machine's clock."""
    waits = _waiting(rows, own, _near(rows, processes, members), moment)
    return summed(each for _, waiting in waits for each in waiting)


def _near(rows: Rows, processes: Sequence[Rows], members: Sequence[Member]) -> list[Member]:
    """Those whose clock is this one's."""
    return [each for each, other in zip(members, processes, strict=True) if other.run.boot == rows.run.boot]


def _waiting(rows: Rows, own: Member, near: Sequence[Member], moment: int) -> Iterator[tuple[Interval, list[Waiting]]]:
    looks = [each for each in map(_looks, rows.waits) if each is not None]
    names: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for piece in rows.work:
        names[int(piece.args.get("pid", 0))].append((piece.start, piece.end, piece.name))
    named: dict[int, list[Waiting]] = defaultdict(list)
    intervals: dict[int, Interval] = {}
    at = 0
    for interval, start, whole_end in rows.nameless:
        end = min(whole_end, moment)
        while at < len(looks) and looks[at].end < start:
            at += 1
        until = at
        while until < len(looks) and looks[until].start < end:
            until += 1
        intervals[interval.index] = interval
        for wait in waits_in(start, end, looks[at:until]) if start < end else ():
            named[interval.index] += whom(wait, own, near, names)
    return ((intervals[index], waiting) for index, waiting in named.items())


def _looks(piece: Slice) -> Looks | None:
    if (how := _HOWS.get(str(piece.args.get("how")))) is None:
        return None
    pid = piece.args.get("pid")
    within = int(piece.args.get("within_ns", 0))
    share = (piece.end - piece.start) / within if within > 0 else 0  # a wait begins before the first look at it
    cpu = {int(pid): max(0, round(int(ns) * share)) for pid, ns in piece.args.get("cpu") or []}
    end = piece.end + max(0, int(piece.args.get("reach_ns", 0)))  # the stretch without a phase may end before
    return Looks(piece.start, end, how, piece.name, int(pid) if pid is not None else None, cpu)


def member(rows: Rows) -> Member:
    """A process as those that waited for it know it."""
    run = rows.run
    above = [row[0] for row in run.ancestors if row]
    start = rows.start - run.before_trace_ns
    return Member(rows.process, run.pid, start, rows.stop, above, list(_phases(rows)))


def _phases(rows: Rows) -> Iterator[tuple[int, int, str]]:
    """The process's time in phases, but for steps that are folded."""
    ledger = sorted(rows.ledger, key=itemgetter(0, 1))
    end = rows.ledger_end if rows.ledger_end is not None else rows.stop
    for (start, _, phase), (following, _, _) in pairwise([*ledger, (max(end, rows.start), False, UNATTRIBUTED)]):
        if phase is not FOLDED and phase != UNATTRIBUTED and following > start:
            yield start, following, phase
