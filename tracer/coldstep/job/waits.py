"""What a thread waited for where it had no phase: decided by looks at the thread itself, never by overlap alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter

from coldstep._util.slotted import field, slotted
from coldstep.model import Waiting, WaitingHow
from coldstep.vocabulary import IMPORTS

LEAST_NS = 250_000_000  # of a stretch without a phase: of a shorter one nobody has looked at
_ALONE_NS = 1_000_000_000  # looks that agree for so long are a stretch by themselves
_WORKS = 0.1  # of a wait: so much of it in phases, or so many cores, and a process worked meanwhile

IDLE = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "accept", "accept4",
        "read", "recvfrom", "recvmsg")  # fmt: skip
"""The kernel's calls in which a thread is idle, where it called them without a function that is known to wait."""

Span = tuple[int, int]
Names = Mapping[int, Sequence[tuple[int, int, str]]]
"""By pid, who had it: from when on, until when, and its name."""


@slotted
class Looks:
    """Looks in a row that saw a thread wait, all at one thing."""

    start: int
    """From when on that is so."""
    end: int
    """The last of them."""
    how: WaitingHow
    """What kind of wait it is."""
    where: str
    """The call that waits: "Connection.recv"."""
    pid: int | None = None
    """The process that the kernel was asked to wait for."""
    cpu: dict[int, int] = field(default_factory=dict)
    """Processor time of the processes below meanwhile, by pid."""


@slotted
class Wait:
    """A wait in a stretch without a phase."""

    spans: list[Span]
    """When."""
    how: WaitingHow
    """As of the looks."""
    where: str
    """The same."""
    pid: int | None
    """The same."""
    cpu: Counter[int]
    """The same."""

    @property
    def ns(self) -> int:
        """How long it was."""
        return sum(end - start for start, end in self.spans)


@slotted
class Member:
    """A traced process, as whoever waited for it may have to know it."""

    index: int
    """Its index in the trace."""
    pid: int
    """The operating system's number."""
    start: int
    """When it began, by the machine's clock."""
    end: int
    """When it ended."""
    above: list[int]
    """The pids of the processes above it."""
    phases: list[tuple[int, int, str]]
    """Its time in phases, in order: begin, end, phase."""


def waits_in(start: int, end: int, looks: Sequence[Looks]) -> Iterator[Wait]:
    """The waits of a stretch without a phase: short ones only where it was a wait for more than half of it."""
    inside = _within(start, end, looks)
    alone = [row for row in inside if row.end - row.start >= _ALONE_NS]
    cuts = sorted({start, end, *(row.start for row in alone), *(row.end for row in alone)})
    for low, high in pairwise(cuts):
        if high - low >= LEAST_NS:
            yield from _by_most(low, high, inside)


def whom(wait: Wait, own: Member, members: Sequence[Member], names: Names) -> list[Waiting]:
    """Of a wait of `own` its rows, one for each phase that the process had meanwhile that it waited for, or the only
    one below that worked; `names` has those of processes without a trace: the system uses a pid again."""
    start, end = wait.spans[0][0], wait.spans[-1][1]
    lived = [row for row in members if row is not own and row.start < end and row.end > start]
    rows = Waiting(None, wait.ns, wait.how, None, wait.where)
    if wait.pid is not None:
        target = max((row for row in lived if row.pid == wait.pid), key=lambda row: row.start, default=None)
        rows.pid, rows.process = wait.pid, target.index if target is not None else None
        rows.command = named(names, wait.pid, start, end) if target is None else None
        phases = _spent(target.phases if target is not None else [], wait.spans)
        phases += _gap(target, [row for row in lived if wait.pid in row.above], wait)
    else:
        working, strangers = _working([row for row in lived if own.pid in row.above], wait)
        rows.working = len(working) + len(strangers)
        phases = Counter()
        if rows.working == 1 and working:
            rows.process, rows.pid = working[0].index, working[0].pid
            phases = _spent(working[0].phases, wait.spans)
        elif rows.working == 1:
            rows.pid, rows.command = strangers[0], named(names, strangers[0], start, end)
    return list(_by_phase(rows, phases))


def named(names: Names, pid: int, start: int, end: int) -> str | None:
    """The process that had a pid at that time; None where nobody saw it."""
    lived = [name for begin, until, name in names.get(pid, ()) if begin < end and until > start]
    return lived[0] if len({*lived}) == 1 else None


def summed(rows: Iterable[Waiting]) -> list[Waiting]:
    """Those that differ only in their length as one, the longest first."""
    by_kind: dict[tuple[object, ...], Waiting] = {}
    for row in rows:
        key = row.process, row.how, row.meanwhile, row.where, row.pid, row.working
        by_kind.setdefault(key, replace(row, ns=0)).ns += row.ns
    return sorted(by_kind.values(), key=lambda row: -row.ns)


def _within(start: int, end: int, looks: Sequence[Looks]) -> list[Looks]:
    """The looks inside a stretch, each up to the next: how far one reaches is a guess."""
    following = [*(row.start for row in looks[1:]), end][: len(looks)]
    return [
        replace(row, start=max(row.start, start), end=min(row.end, end, max(row.start, until)))
        for row, until in zip(looks, following, strict=True)
        if row.start < end and row.end > start
    ]


def _by_most(low: int, high: int, looks: Sequence[Looks]) -> Iterator[Wait]:
    by_kind: dict[tuple[WaitingHow, str, int | None], Wait] = {}
    for row in looks:
        start, end = max(row.start, low), min(row.end, high)
        if start < end:
            wait = by_kind.setdefault((row.how, row.where, row.pid), Wait([], row.how, row.where, row.pid, Counter()))
            wait.spans.append((start, end))
            share = (end - start) / (row.end - row.start)
            wait.cpu.update({pid: round(ns * share) for pid, ns in row.cpu.items()})
    waited = sum(wait.ns for wait in by_kind.values())
    least = min(LEAST_NS, (high - low) // 2) if 2 * waited > high - low else LEAST_NS  # less may be chance
    yield from (wait for wait in by_kind.values() if wait.ns >= least)


def _working(below: Sequence[Member], wait: Wait) -> tuple[list[Member], list[int]]:
    """Which processes worked during a wait: those with a trace, and the pids of others."""
    busy = _busy(wait)
    working = [row for row in below if row.pid in busy or _spent(row.phases, wait.spans).total() >= _WORKS * wait.ns]
    return working, sorted(busy - {row.pid for row in below})


def _busy(wait: Wait) -> set[int]:
    return {pid for pid, ns in wait.cpu.items() if ns >= _WORKS * wait.ns}


def _gap(target: Member | None, below: Sequence[Member], wait: Wait) -> Counter[str]:
    """What the one below a process did while that had no phase itself; nothing where it worked itself, or several did,
    since nobody knows which of them it waited for."""
    gaps = list(_gaps(target.phases, wait.spans)) if target is not None else wait.spans
    whole, busy = sum(end - start for start, end in gaps), _busy(wait)
    own = wait.cpu.get(wait.pid or 0, 0) - (wait.ns - whole)  # its phases may have used all of their time
    if own >= _WORKS * whole or busy - {wait.pid} - {row.pid for row in below}:
        return Counter()
    spent = [(row.pid in busy, _spent(row.phases, gaps)) for row in below]
    working = [phases for is_busy, phases in spent if is_busy or phases.total() >= max(1, _WORKS * whole)]
    return working[0] if len(working) == 1 else Counter()


def _overlaps(phases: Sequence[tuple[int, int, str]], start: int, end: int) -> Iterator[tuple[int, int, str]]:
    at = bisect_left(phases, start, key=itemgetter(1))
    for begin, until, phase in phases[at:]:
        if begin >= end:
            return
        if min(until, end) > max(begin, start):
            yield max(begin, start), min(until, end), phase


def _spent(phases: Sequence[tuple[int, int, str]], spans: Iterable[Span]) -> Counter[str]:
    spent: Counter[str] = Counter()
    for start, end in spans:
        for begin, until, phase in _overlaps(phases, start, end):
            spent[IMPORTS if phase.startswith("import.") else phase] += until - begin
    return spent


def _gaps(phases: Sequence[tuple[int, int, str]], spans: Iterable[Span]) -> Iterator[Span]:
    for start, end in spans:
        at = start
        for begin, until, _ in _overlaps(phases, start, end):
            if begin > at:
                yield at, begin
            at = until
        if at < end:
            yield at, end


def _by_phase(row: Waiting, phases: Counter[str]) -> Iterator[Waiting]:
    left = row.ns
    for phase, ns in phases.most_common():
        if took := min(left, ns):
            left -= took
            yield replace(row, ns=took, meanwhile=phase)
    if left:
        yield replace(row, ns=left)
