"""`coldstep cache`: why what had been compiled is compiled again, and what a cache holds."""

from __future__ import annotations

import tempfile
from collections.abc import Container
from functools import partial
from itertools import chain
from pathlib import Path

import click

from coldstep._util.stderr import say
from coldstep.analysis.caches.reuse import Reuse, compared, foretold
from coldstep.errors import TraceError
from coldstep.loading.cache_folders import holds
from coldstep.logs import convert
from coldstep.model import Process, Trace
from coldstep.rows.processes import name as process_name
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.inputs import loaded, opened, readable
from coldstep_viewers.commands.output import exit_with, fail, give_up, or_fail, say_left_out, show
from coldstep_viewers.report.cache_reuse import (
    as_json,
    compared_lines,
    entries_as_json,
    entries_lines,
    foretold_lines,
    slowest_of,
)
from coldstep_viewers.safe_text import plain

Member = tuple[Trace, int]
"""A trace, and the index of one process in it."""


@click.command("cache", short_help="What the next process compiles again, and why.")
@click.argument("run", required=False)
@click.argument("later", required=False)
@click.option("--holds", "place", metavar="PATH", help="List the entries of a cache's folder, or of a Mega-cache file.")
@findings("text", "json")
def command(run: str | None, later: str | None, place: str | None, wanted: Wanted) -> None:
    """Show what the next process like RUN would load from the caches on disk, what it would have to repeat, and why.
    With LATER, show whether LATER loaded each program that RUN had compiled, and if not, which part of the cache key
    differed.

    Each is a trace, or a folder of traces, one per rank. With LATER, both may also be logs: the files of TORCH_TRACE,
    or JAX's output under JAX_EXPLAIN_CACHE_MISSES=1 and JAX_LOG_COMPILES=1, as far as these go. coldstep compares the
    frameworks' hashes, and shows both values as text if it knows them.

    With --holds, list the entries of a cache, the function of each, and damaged ones. Nothing in the cache is run or
    unpickled.

    \b
    Example:
      coldstep cache run.pftrace
      coldstep cache yesterday.pftrace today.pftrace
      coldstep cache pod-a/ pod-b/ --format json
      coldstep cache torch-trace-monday/ torch-trace-tuesday/
      coldstep cache --holds ~/.cache/jax
    """
    wanted.keep([path for path in (run, later) if path is not None])
    if place is not None:
        if run is not None:
            fail("give traces or --holds, not both")
        _show_entries(place, wanted.format)
        return
    if run is None:
        fail("give a trace, or --holds with a cache's folder")
    first, lost = _members(run, logs=later is not None)
    if later is None:
        found = [_of_rank(foretold(trace, process), trace, process, len(first)) for trace, process in first.values()]
        show(lambda: as_json(found), lambda: _foretold_text(run, found, list(first.values())), wanted.format)
        exit_with(lost)
        return
    second, also_lost = _members(later, logs=True)
    if set(first) != set(second) and len(first) == len(second) == 1:
        second = dict(zip(first, second.values(), strict=True))
    both = [rank for rank in first if rank in second]
    if not both:
        fail(f"{run} and {later} have no process in common")
    found = [
        _of_rank(compared(first[rank][0], second[rank][0], first[rank][1], second[rank][1]), *second[rank], len(both))
        for rank in both
    ]
    lines = chain(compared_lines(run, later, found), _missing(run, later, first, second))
    show(lambda: as_json(found, measured=True), lambda: lines, wanted.format)
    exit_with([*lost, *also_lost])


def _members(path: str, *, logs: bool) -> tuple[dict[object, Member], list[str]]:
    """The processes of a trace, of a folder's traces, or of logs, by what each is found again; and what was left out,
    which is said."""
    traces, lost = _traces(path, logs=logs)
    say_left_out(lost)
    found: dict[object, Member] = {}
    for name, trace in traces:
        for row in trace.processes:
            found[_key(row, name if len(traces) > 1 else "", found)] = trace, row.index
    return found, lost


def _key(row: Process, file: str, taken: Container[object]) -> object:
    """By what a process is found again in another run: its rank, the file of its trace, or its name; the name of one
    that has several comes with a number."""
    if row.rank is not None or file:
        return row.rank if row.rank is not None else file
    name = row.name or str(row.index)
    names = (name, *(f"{name} ({number})" for number in range(2, row.index + 2)))
    return next(each for each in names if each not in taken)


def _traces(path: str, *, logs: bool) -> tuple[list[tuple[str, Trace]], list[str]]:
    """The traces at `path`, each with its file's name, and why others there are none; one of logs where there are no
    traces, and `logs` may be."""
    is_folder = Path(path).is_dir()
    paths = sorted(map(str, Path(path).glob("*.pftrace"))) if is_folder else [path]
    lost = [] if paths else [f"{path} holds no traces (*.pftrace)"]
    found = [(Path(each).name, trace) for each, trace in readable(paths, partial(opened, job=not is_folder), lost)]
    return (found, lost) if found else ([_of_logs(path, logs, lost)], [])


def _of_logs(path: str, wanted: bool, no_trace: list[str]) -> tuple[str, Trace]:
    """The trace that the logs at `path` make; where there are none, `no_trace` says why there is no trace, either."""
    with tempfile.TemporaryDirectory(prefix="coldstep-") as folder:
        try:
            complaints = convert([path], out := str(Path(folder, "log.pftrace")), lambda *_: None)
        except (TraceError, OSError):
            give_up(no_trace)
        if not wanted:
            fail(f"{path} is a log, which holds no process's time: give two, or a trace")
        for complaint in complaints:
            say(plain(complaint))
        return Path(path).name, loaded(out)


def _of_rank(found: Reuse, trace: Trace, process: int, number: int) -> Reuse:
    """The same, each program with its rank, where there are several."""
    for row in found.programs if number > 1 else ():
        row.rank = trace.processes[process].rank
    return found


def _foretold_text(path: str, found: list[Reuse], members: list[Member]) -> list[str]:
    slowest = slowest_of(found)
    trace, process = members[slowest]
    row = trace.processes[process]
    lines = foretold_lines(path, found[slowest], row.before_trace_ns + row.wall_ns, trace.vocabulary)
    compiled = sum(bool(each.programs) for each in found)
    processes = "processes" if compiled in (0, len(found)) else f"processes, {compiled} of which compiled"
    whose = f"the slowest of {len(found)} {processes}: {process_name(trace, process)}"
    return [whose, *lines] if len(found) > 1 else list(lines)


def _missing(run: str, later: str, first: dict[object, Member], second: dict[object, Member]) -> list[str]:
    return [
        f"only in {path}: {name}"
        for path, mine, others in ((run, first, second), (later, second, first))
        for name in mine
        if name not in others
    ]


def _show_entries(place: str, wanted: str) -> None:
    with or_fail():
        found, lost = holds(place)
    show(lambda: entries_as_json(found), lambda: entries_lines(place, found), wanted)
    say_left_out(lost)
    exit_with(lost)
