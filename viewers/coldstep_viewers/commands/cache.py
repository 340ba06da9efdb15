"""`coldstep cache`: why what had been compiled is compiled again, and what a cache holds."""

from __future__ import annotations

from pathlib import Path

import click

from coldstep.analysis.reuse import Reuse, compared, foretold
from coldstep.errors import TraceError
from coldstep.model import Trace
from coldstep.stored_caches import holds
from coldstep_viewers.commands._output import echo, fail
from coldstep_viewers.commands._shared import echo_json, loaded
from coldstep_viewers.reuse import as_json, compared_lines, entries_as_json, entries_lines, foretold_lines
from coldstep_viewers.safe_text import plain

Member = tuple[Trace, int]
"""A trace, and the index of one process in it."""


@click.command("cache", short_help="What a further process compiles again, and why.")
@click.argument("run", required=False)
@click.argument("later", required=False)
@click.option("--holds", "place", metavar="PATH", help="Say what a cache's folder, or a Mega-cache file, holds.")
@click.option("--json", "as_data", is_flag=True, help="Print the rows (schema coldstep-cache/1) instead of text.")
def command(run: str | None, later: str | None, place: str | None, as_data: bool) -> None:
    """Say what a further process like RUN would load from the caches on disk, what it would pay again, and why. With
    LATER, say of each program that RUN had compiled whether LATER loaded it, and which part of its key differed.

    Each is a trace, or a folder of traces, one per rank. What differs is decided by hashes that the traces hold; both
    values are shown in words where they have some.

    With --holds: what is in a cache itself, for which function, and what is damaged. Nothing in it is run or unpickled.

    \b
    Example:
      coldstep cache run.pftrace
      coldstep cache yesterday.pftrace today.pftrace
      coldstep cache pod-a/ pod-b/ --json
      coldstep cache --holds ~/.cache/jax
    """
    if place is not None:
        if run is not None:
            fail("give traces or --holds, not both")
        _show_entries(place, as_data)
        return
    if run is None:
        fail("give a trace, or --holds with a cache's folder")
    first = _members(run)
    if later is None:
        found = [_of_rank(foretold(trace, process), trace, process, len(first)) for trace, process in first.values()]
        _show(found, as_data, _foretold_text(run, found, list(first.values())))
        return
    second = _members(later)
    if set(first) != set(second) and len(first) == len(second) == 1:
        second = dict(zip(first, second.values(), strict=True))
    both = [rank for rank in first if rank in second]
    if not both:
        fail(f"{run} and {later} have no rank in common")
    found = [
        _of_rank(compared(first[rank][0], second[rank][0], first[rank][1], second[rank][1]), *second[rank], len(both))
        for rank in both
    ]
    _show(found, as_data, [*compared_lines(run, later, found), *_missing(run, later, first, second)])


def _members(path: str) -> dict[object, Member]:
    """The processes of a trace, or of a folder's traces, by rank where they have one."""
    paths = sorted(Path(path).glob("*.pftrace")) if Path(path).is_dir() else [path]
    if not paths:
        fail(f"{path} holds no traces (*.pftrace)")
    found: dict[object, Member] = {}
    for each in paths:
        trace = loaded(str(each))
        for row in trace.processes:
            name = Path(each).name if len(paths) > 1 else row.index
            found[row.rank if row.rank is not None else name] = trace, row.index
    return found


def _of_rank(found: Reuse, trace: Trace, process: int, number: int) -> Reuse:
    """The same, each program with its rank, where there are several."""
    for row in found.programs if number > 1 else ():
        row.rank = trace.processes[process].rank
    return found


def _foretold_text(path: str, found: list[Reuse], members: list[Member]) -> list[str]:
    slowest = max(range(len(found)), key=lambda at: found[at].second_run.wall_ns)
    trace, process = members[slowest]
    row = trace.processes[process]
    lines = foretold_lines(path, found[slowest], row.before_trace_ns + row.wall_ns, trace.vocabulary)
    several = f"the slowest of {len(found)} processes: rank {row.rank if row.rank is not None else process}"
    return [several, *lines] if len(found) > 1 else list(lines)


def _missing(run: str, later: str, first: dict[object, Member], second: dict[object, Member]) -> list[str]:
    return [
        f"only in {path}: {name}"
        for path, mine, others in ((run, first, second), (later, second, first))
        for name in mine
        if name not in others
    ]


def _show(found: list[Reuse], as_data: bool, lines: list[str]) -> None:
    if as_data:
        echo_json(as_json(found))
    else:
        echo(plain("\n".join(lines)))


def _show_entries(place: str, as_data: bool) -> None:
    try:
        found = holds(place)
    except TraceError as error:
        fail(str(error))
    if as_data:
        echo_json(entries_as_json(found))
    else:
        echo(plain("\n".join(entries_lines(place, found))))
