"""The processes of a job, each below the one that started it: how, where, what it compiled and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from coldstep._util.figures import count, duration
from coldstep._util.slotted import slotted
from coldstep.analysis.across.ranks import compile_rank_ns
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import COMPILES
from coldstep.model import Process, Trace
from coldstep.rows.processes import name
from coldstep_viewers.safe_text import short

_MOST_LINES = 64
_HOW = {"root": "", "subprocess": "started", "spawn": "spawned", "fork": "forked", "forkserver": "by the forkserver",
        "exec": "the same process, after an exec", "ray": "by Ray"}  # fmt: skip


@slotted
class _Line:
    """A process as its line shows it; processes with equal `did` and `depth` below one parent are alike."""

    process: Process
    depth: int
    did: tuple[object, ...]
    spent_ns: int


def is_tree(trace: Trace) -> bool:
    """Whether the processes are more than the ranks of one program."""
    return trace.run.job is not None and any(row.rank is None for row in trace.processes)


def tree(trace: Trace) -> Iterator[tuple[int, str]]:
    """A line for each process and how deep it stands, those that did the same in one; nothing of a single one."""
    if len(trace.processes) < 2:
        return
    lines = [_merged(trace, list(alike)) for _, alike in groupby(_lines(trace), lambda line: (line.depth, line.did))]
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield 0, f"and {len(lines) - _MOST_LINES} more"


def _lines(trace: Trace) -> Iterator[_Line]:
    """Each process before those that it started."""
    spent = compile_rank_ns(trace)
    compiles, again = ({row.index: 0 for row in trace.processes} for _ in range(2))
    for compile_ in trace.compiles:
        compiles[compile_.process] += compile_.parent is None
    for recompile in trace.recompiles:
        again[recompile.process] += 1

    def below(parent: int | None, depth: int) -> Iterator[_Line]:
        for row in trace.processes:
            if row.parent == parent:
                place = (row.started_by.file, row.started_by.line) if row.started_by is not None else None
                did = (parent, row.how, place, compiles[row.index], again[row.index], row.ended)
                yield _Line(row, depth, did, spent[row.index])
                yield from below(row.index, depth + 1)

    yield from below(None, 0)


def _merged(trace: Trace, alike: list[_Line]) -> tuple[int, str]:
    first, last = alike[0].process, alike[-1].process
    _, how, _, compiled, again, ended = alike[0].did
    named = name(trace, first.index)
    if len(alike) > 1:
        named = f"{named} to {name(trace, last.index)}, {len(alike)} alike"
    started = _HOW.get(str(how), "")
    if first.started_by is not None:
        started = f"{started or 'started'} at {first.started_by.file}:{first.started_by.line}"
    spent = sorted(line.spent_ns for line in alike)
    took = duration(spent[0]) if len(spent) == 1 else f"{duration(spent[0])} to {duration(spent[-1])} each"
    why = unknown(trace, COMPILES, first.index)
    none = f"what it compiled is not known ({why})" if why is not None else "compiled nothing"
    did = f"{count(int(str(compiled)), 'compile')}, {took}" if compiled else none
    words = [short(named), started, did]
    words += [count(int(str(again)), "recompile")] if again else []
    words += [] if ended == "ok" else [f"ended: {str(ended).replace('_', ' ')}"]
    return alike[0].depth, "; ".join(word for word in words if word)
