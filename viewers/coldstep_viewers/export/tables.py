"""Traces as tables: the rows of each."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from coldstep.analysis.caches.pairs import COVERED
from coldstep.model import UNATTRIBUTED, Compile, Location, Process, Trace
from coldstep.vocabulary import FRAMEWORKS

Rows = Iterator[tuple[Any, ...]]

_TEXT, _INT, _TEXTS = pa.string(), pa.int64(), pa.list_(pa.string())
_KEYS = (("run", _TEXT), ("started", pa.timestamp("us", tz="UTC")))
_COLUMNS: dict[str, tuple[tuple[str, pa.DataType], ...]] = {
    "runs": (
        ("command", _TEXT), ("root", _TEXT), ("host", _TEXT), ("rank", _INT), ("processes", _INT), ("wall_ns", _INT),
        ("before_trace_ns", _INT), ("ended", _TEXT), ("error", _TEXT), ("python", _TEXT),
        *((package, _TEXT) for package in FRAMEWORKS), ("dropped_ledger", _INT), ("dropped_bulk", _INT),
        ("peak_rss_bytes", _INT), ("device_peak_bytes", _INT),
    ),
    "processes": (
        ("process", _INT), ("pid", _INT), ("host", _TEXT), ("rank", _INT), ("start_ns", _INT), ("wall_ns", _INT),
        ("before_trace_ns", _INT), ("ended", _TEXT), ("python", _TEXT), *((package, _TEXT) for package in FRAMEWORKS),
    ),
    "costs": (
        ("process", _INT), ("name", _TEXT), ("time_to_first_step_ns", _INT), ("time_to_settled_ns", _INT),
        ("steady_step_ns", _INT), ("steady_spread_ns", _INT),
    ),
    "intervals": (
        ("process", _INT), ("interval", _INT), ("kind", _TEXT), ("name", _TEXT), ("step", _INT), ("label", _TEXT),
        ("measures", _TEXT), ("start_ns", _INT), ("wall_ns", _INT), ("unattributed_ns", _INT), ("compiles", _INT),
        ("python_dispatches", _INT), ("rss_bytes", _INT), ("device_bytes", _INT), ("inferred_by", _TEXT),
        ("inferred_of", _TEXT),
    ),
    "phases": (
        ("process", _INT), ("interval", _INT), ("kind", _TEXT), ("name", _TEXT), ("step", _INT), ("label", _TEXT),
        ("phase", _TEXT), ("ns", _INT),
    ),
    "compiles": (
        ("process", _INT), ("compile", _TEXT), ("stack", _TEXT), ("function", _TEXT), ("origin", _TEXT), ("key", _TEXT),
        ("file", _TEXT), ("line", _INT), ("caller_file", _TEXT), ("caller_line", _INT), ("parent", _TEXT),
        ("caused_by", _TEXT), ("reason", _TEXT), ("outcome", _TEXT), ("variant", _INT), ("variant_limit", _INT),
        ("interval", _INT), ("name", _TEXT), ("step", _INT), ("start_ns", _INT), ("wall_ns", _INT),
        ("cacheable_ns", _INT), ("cause", _TEXT), ("pattern", _TEXT), ("argument", _TEXT), ("before", _TEXT),
        ("after", _TEXT), ("confidence", _TEXT), ("advice", _TEXT), ("program", _TEXT), ("inputs", _TEXTS),
    ),
    "changes": (
        ("process", _INT), ("compile", _TEXT), ("previous", _TEXT), ("function", _TEXT), ("argument", _TEXT),
        ("mechanism", _TEXT), ("before", _TEXT), ("after", _TEXT),
    ),
    "caches": (
        ("process", _INT), ("compile", _TEXT), ("layer", _TEXT), ("part", _TEXT), ("state", _TEXT), ("count", _INT),
        ("hits", _INT), ("key", _TEXT), ("written", pa.bool_()), ("why", _TEXT), ("load_ns", _INT), ("saved_ns", _INT),
        ("self_ns", _INT),
    ),
    "components": (
        ("process", _INT), ("layer", _TEXT), ("name", _TEXT), ("hash", _TEXT), ("text", _TEXT), ("compiles", _INT),
    ),
    "findings": (
        ("process", _INT), ("finding", _TEXT), ("kind", _TEXT), ("severity", _TEXT), ("interval", _INT), ("step", _INT),
        ("cost_ns", _INT), ("file", _TEXT), ("line", _INT), ("text", _TEXT), ("advice", _TEXT), ("evidence", _TEXTS),
        ("refs", _TEXTS),
    ),
}  # fmt: skip
SCHEMAS = {name: pa.schema([*_KEYS, *columns]) for name, columns in _COLUMNS.items()}
"""The columns of each table; docs/reference/tables.md explains them."""

_EDGE = 1 << 16
LABEL = "label_"
"""What the columns begin with that a table of runs has beside those: one of texts for each label."""


def tables(trace: Trace, run: str) -> dict[str, pa.Table]:
    """The tables of one trace, whose rows name it `run`."""
    rows: dict[str, Callable[[Trace], Rows]] = {
        "runs": _runs, "processes": _processes, "costs": _costs, "intervals": _intervals, "phases": _phases,
        "compiles": _compiles, "changes": _changes, "caches": _caches, "components": _components,
        "findings": _findings,
    }  # fmt: skip
    keys = run, _started(trace)
    made = {}
    for name, schema in SCHEMAS.items():
        columns = list(zip(*rows[name](trace), strict=True)) or [()] * len(_COLUMNS[name])
        alike = [pa.repeat(pa.scalar(key, type_), len(columns[0])) for key, (_, type_) in zip(keys, _KEYS, strict=True)]
        arrays = alike + [pa.array(values, type_) for values, (_, type_) in zip(columns, _COLUMNS[name], strict=True)]
        made[name] = pa.Table.from_arrays(arrays, schema=schema)
    for label, text in trace.run.labels.items():
        made["runs"] = made["runs"].append_column(LABEL + label, pa.array([text], _TEXT))
    return made


def run_of(path: Path) -> str:
    """A name for what the file at `path` holds, the same for its copies. Raises OSError.

    A trace begins with random ids and is only ever appended to: its two ends and its length distinguish it.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_EDGE)
        file.seek(max(0, size - _EDGE))
        return hashlib.blake2b(b"%d" % size + head + file.read(), digest_size=8).hexdigest()


# --- rows ---------------------------------------------------------------------------------------------------------


def _started(trace: Trace) -> datetime:
    try:
        return datetime.fromisoformat(trace.run.started).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, UTC)


def _runs(trace: Trace) -> Rows:
    run, first = trace.run, trace.processes[0]
    yield _values(
        "runs", run, command=" ".join(run.command), host=first.host, rank=first.rank, processes=len(trace.processes),
        before_trace_ns=first.before_trace_ns, dropped_ledger=run.dropped.ledger, dropped_bulk=run.dropped.bulk,
        peak_rss_bytes=trace.memory.peak_rss_bytes, device_peak_bytes=trace.memory.device_peak_bytes,
        **_versions(first),
    )  # fmt: skip


def _processes(trace: Trace) -> Rows:
    for row in trace.processes:
        yield _values("processes", row, process=row.index, **_versions(row))


def _costs(trace: Trace) -> Rows:
    yield from (_values("costs", row) for row in trace.cost)


def _intervals(trace: Trace) -> Rows:
    for row in trace.intervals:
        yield (
            row.process, row.index, row.kind, row.name, row.step, row.label, row.measures, row.start_ns, row.wall_ns,
            row.unattributed_ns, len(row.compiles), row.python_dispatches, row.rss_bytes, row.device_bytes,
            *((by.rule, by.of) if (by := row.inferred_by) is not None else (None, None)),
        )  # fmt: skip


def _phases(trace: Trace) -> Rows:
    for row in trace.intervals:
        for phase, ns in (*row.phases.items(), (UNATTRIBUTED, row.unattributed_ns)):
            yield row.process, row.index, row.kind, row.name, row.step, row.label, phase, ns


def _compiles(trace: Trace) -> Rows:
    again = {row.compile: row for row in trace.recompiles}
    for row in trace.compiles:
        segment, why = row.segments[0], again.get(row.id)
        interval = trace.intervals[segment.interval]
        (file, line), (caller_file, caller_line) = _place(row.location), _place(row.caller)
        yield _values(
            "compiles", row, compile=row.id, file=file, line=line, caller_file=caller_file, caller_line=caller_line,
            variant=row.variant.n, variant_limit=row.variant.limit, interval=interval.index, name=interval.name,
            step=interval.step, start_ns=segment.start_ns, cacheable_ns=_cacheable(row),
            inputs=None if row.inputs is None else [f"{leaf.argument} {leaf.type}" for leaf in row.inputs],
            **{name: getattr(why, name, None) for name in _WHY},
        )  # fmt: skip


def _cacheable(row: Compile) -> int | None:
    """The time in phases that the caches it asked would save."""
    covered = {phase for cache in row.caches for phase in COVERED.get(cache.layer, ())}
    return sum(segment.phases.get(phase, 0) for segment in row.segments for phase in covered) if covered else None


def _changes(trace: Trace) -> Rows:
    functions = {row.id: row.function for row in trace.compiles}
    for row in trace.recompiles:
        for change in row.changes:
            of = {"process": row.process, "compile": row.compile, "previous": row.previous}
            yield _values("changes", change, function=functions.get(row.compile), **of)


def _caches(trace: Trace) -> Rows:
    for row in trace.compiles:
        for cache in row.caches:
            yield _values("caches", cache, process=row.process, compile=row.id)


def _components(trace: Trace) -> Rows:
    """Each part of keys once for a process: most are the same in all of its keys."""
    compiles: Counter[tuple[int, str, str, str]] = Counter()
    texts: dict[tuple[int, str, str, str], str | None] = {}
    for row in trace.compiles:
        for cache in row.caches:
            for part in cache.components:
                component = row.process, cache.layer, part.name, part.hash
                compiles[component] += 1
                texts[component] = part.text
    for component, number in compiles.items():
        yield *component, texts[component], number


def _findings(trace: Trace) -> Rows:
    for row in trace.findings:
        file, line = _place(row.location)
        yield _values("findings", row, finding=row.id, file=file, line=line)


_WHY = ("cause", "pattern", "argument", "before", "after", "confidence", "advice")
"""The columns of a compile that are its recompile's."""


def _values(table: str, row: object, **others: object) -> tuple[Any, ...]:
    """A row of a table: the values of these columns, and of all others the attribute of that name."""
    return tuple(others[name] if name in others else getattr(row, name) for name, _ in _COLUMNS[table])


def _versions(process: Process) -> dict[str, str | None]:
    return {package: process.versions.get(package) for package in ("python", *FRAMEWORKS)}


def _place(location: Location | None) -> tuple[str | None, int | None]:
    return (location.file, location.line) if location else (None, None)
