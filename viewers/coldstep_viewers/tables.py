"""Traces as tables: Parquet for other tools, and SQL over as many traces as there are.

A trace is read once: its tables are kept, by what is in the file, in the user's cache folder.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import coldstep
from coldstep.errors import ColdstepError, TraceError
from coldstep.loading import load
from coldstep.model import UNATTRIBUTED, Location, Trace
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
        ("interval", _INT), ("name", _TEXT), ("step", _INT), ("start_ns", _INT), ("wall_ns", _INT), ("cause", _TEXT),
        ("pattern", _TEXT), ("argument", _TEXT), ("before", _TEXT), ("after", _TEXT), ("confidence", _TEXT),
        ("advice", _TEXT),
    ),
    "changes": (
        ("process", _INT), ("compile", _TEXT), ("previous", _TEXT), ("function", _TEXT), ("argument", _TEXT),
        ("mechanism", _TEXT), ("before", _TEXT), ("after", _TEXT),
    ),
    "findings": (
        ("process", _INT), ("finding", _TEXT), ("kind", _TEXT), ("severity", _TEXT), ("interval", _INT), ("step", _INT),
        ("cost_ns", _INT), ("file", _TEXT), ("line", _INT), ("text", _TEXT), ("advice", _TEXT), ("evidence", _TEXTS),
        ("refs", _TEXTS),
    ),
}  # fmt: skip
SCHEMAS = {name: pa.schema([*_KEYS, *columns]) for name, columns in _COLUMNS.items()}
"""The columns of each table; docs/tables.md says what they mean."""

_EDGE = 1 << 16
_MEMORY, _SPILLED = "2GB", "8GB"
_PATIENCE_S = 300.0
_ANSWERED = ("SELECT", "EXPLAIN", "MULTI")  # MULTI: a pivot
_KEPT_DAYS = 30
_BATCH = 10_000


def tables(trace: Trace, run: str) -> dict[str, pa.Table]:
    """The tables of one trace, whose rows say `run` for it."""
    rows: dict[str, Callable[[Trace], Rows]] = {
        "runs": _runs, "intervals": _intervals, "phases": _phases, "compiles": _compiles, "changes": _changes,
        "findings": _findings,
    }  # fmt: skip
    keys = run, _started(trace)
    made = {}
    for name, schema in SCHEMAS.items():
        columns = list(zip(*rows[name](trace), strict=True)) or [()] * len(_COLUMNS[name])
        alike = [pa.repeat(pa.scalar(key, type_), len(columns[0])) for key, (_, type_) in zip(keys, _KEYS, strict=True)]
        arrays = alike + [pa.array(values, type_) for values, (_, type_) in zip(columns, _COLUMNS[name], strict=True)]
        made[name] = pa.Table.from_arrays(arrays, schema=schema)
    return made


def export(trace: Trace, path: Path, folder: Path) -> list[Path]:
    """Write the tables of the trace at `path` below `folder`, a folder per table and day. Raises OSError.

    What an earlier export of the same trace wrote is replaced.
    """
    run = run_of(path)
    date = f"date={_started(trace):%Y-%m-%d}"
    written = []
    for name, table in tables(trace, run).items():
        file = folder / name / date / f"{run}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file)
        written.append(file)
    return written


def run_of(path: Path) -> str:
    """A name for what the file at `path` holds, the same for its copies. Raises OSError.

    A trace begins with random ids and is only ever appended to: its two ends and its length tell it from all others.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_EDGE)
        file.seek(max(0, size - _EDGE))
        return hashlib.blake2b(b"%d" % size + head + file.read(), digest_size=8).hexdigest()


# --- SQL ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Answer:
    """The rows that a statement gave, in batches, and their columns."""

    columns: list[str]
    batches: Iterator[list[dict[str, Any]]]


class QueryError(ColdstepError, ValueError):
    """A statement that cannot be answered; the message is the engine's."""


@contextmanager
def query(paths: Sequence[Path], statement: str, problem: Callable[[str], None]) -> Iterator[Answer]:
    """The answer to `statement` over the tables of all traces at `paths`.

    A file that is no trace is left out, and `problem` told. Raises TraceError where that leaves none, QueryError for
    a statement that is no question to these tables, takes too long, or is refused by the engine.
    """
    with _cache() as cache, tempfile.TemporaryDirectory(prefix="coldstep-sql-") as spill:
        files = _kept(paths, cache, problem)
        if not files:
            raise TraceError("no trace could be read")
        connection = duckdb.connect(
            config={
                "memory_limit": _MEMORY,
                "temp_directory": spill,
                "max_temp_directory_size": _SPILLED,
                "preserve_insertion_order": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "python_enable_replacements": "false",
            }
        )
        try:
            _views(connection, files, cache)
            with _interrupted(connection):
                found = connection.sql(_question(connection, statement))
                yield Answer(found.columns, (batch.to_pylist() for batch in found.to_arrow_reader(_BATCH)))
        except duckdb.InterruptException:
            raise QueryError(f"the statement takes more than {_PATIENCE_S:.0f} s: ask for less") from None
        except duckdb.Error as error:
            raise QueryError(" ".join(str(error).partition("\n\n")[0].split())) from error
        finally:
            connection.close()


@contextmanager
def _interrupted(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """What takes too long inside is interrupted."""
    late = Timer(_PATIENCE_S, connection.interrupt)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()  # it refers to the connection, which must be gone when Python ends


def _question(connection: duckdb.DuckDBPyConnection, statement: str) -> str:
    """The statement, which only asks. Raises QueryError for any other."""
    kinds = [each.type.name for each in connection.extract_statements(statement)]
    if len(kinds) != 1 or kinds[0] not in _ANSWERED:
        what = "selects nothing" if not kinds else "is several" if len(kinds) > 1 else f"is {kinds[0]}, no question"
        raise QueryError(f"the statement {what}: give one select")
    return statement


def _views(connection: duckdb.DuckDBPyConnection, files: list[tuple[str, str]], cache: Path) -> None:
    """One view per table, in which each row says the trace that it is of; copies of a trace each have their own.

    From then on the connection reads the files of these tables, and reaches nothing else: no file, network or setting.
    """
    traces, runs = zip(*files, strict=True)
    connection.register("files", pa.table({"trace": traces, "run": runs}))
    parts = {name: _listed(str(cache / run / f"{name}.parquet") for run in dict.fromkeys(runs)) for name in SCHEMAS}
    for name, listed in parts.items():
        connection.execute(f"create view {name} as from files join read_parquet([{listed}]) using (run)")
    connection.execute(f"set allowed_paths = [{', '.join(parts.values())}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _listed(texts: Iterable[str]) -> str:
    return ", ".join("'{}'".format(text.replace("'", "''")) for text in texts)


def _kept(paths: Sequence[Path], cache: Path, problem: Callable[[str], None]) -> list[tuple[str, str]]:
    """Path and run of each trace, once its tables are in the cache."""
    runs: dict[Path, str] = {}
    for path in paths:
        try:
            runs[path] = run_of(path)
        except OSError as error:
            problem(f"cannot read {path}: {error.strerror}")
    missing = {run: path for path, run in runs.items() if not (cache / run).is_dir()}
    bad = {}
    for run, wrong in _read_all([(str(path), run, str(cache)) for run, path in missing.items()]):
        if wrong:
            bad[run] = wrong
    for path, run in runs.items():
        if run in bad:
            problem(bad[run].replace(str(missing[run]), str(path), 1))
    return [(str(path), run) for path, run in runs.items() if run not in bad]


def _read_all(jobs: list[tuple[str, str, str]]) -> Iterable[tuple[str, str]]:
    workers = min(len(jobs), os.cpu_count() or 1)
    if workers < 2:
        yield from map(_keep, jobs)
        return
    # spawned, for Arrow's threads would not survive a fork
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(_keep, jobs, chunksize=4)


def _keep(job: tuple[str, str, str]) -> tuple[str, str]:
    """Read one trace and keep its tables; its run, and what was wrong with it."""
    path, run, cache = job
    gc.disable()  # of a trace's millions of objects none is garbage: to look for some takes a fifth of the time
    try:
        found = tables(load(path), run)
    except TraceError as error:
        return run, str(error)
    finally:
        gc.enable()
    # whole or not at all, for another query may look at the same time
    folder = Path(tempfile.mkdtemp(dir=cache))
    for name, table in found.items():
        pq.write_table(table, folder / f"{name}.parquet")
    try:
        folder.rename(Path(cache, run))
    except OSError:  # the other query was first
        shutil.rmtree(folder)
    return run, ""


@contextmanager
def _cache() -> Iterator[Path]:
    """The folder of the tables that this very code makes; a temporary one where none can be kept."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "coldstep")
    cache = root / f"tables-{_code()}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        os.utime(cache)
        for other in root.glob("tables-*"):
            if other.stat().st_mtime < time.time() - _KEPT_DAYS * 86_400:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="coldstep-tables-") as folder:
            yield Path(folder)
        return
    yield cache


def _code() -> str:
    """A name for the code that makes the tables: other code may find other things in the same trace."""
    digest = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=8)
    for file in sorted(Path(coldstep.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


# --- rows ---------------------------------------------------------------------------------------------------------


def _started(trace: Trace) -> datetime:
    try:
        return datetime.fromisoformat(trace.run.started).astimezone(UTC)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def _runs(trace: Trace) -> Rows:
    run, first = trace.run, trace.processes[0]
    versions = first.versions
    yield (
        " ".join(run.command), run.root, first.host, first.rank, len(trace.processes), run.wall_ns,
        first.before_trace_ns, run.ended, run.error, versions.get("python"),
        *(versions.get(package) for package in FRAMEWORKS), run.dropped.ledger, run.dropped.bulk,
        trace.memory.peak_rss_bytes, trace.memory.device_peak_bytes,
    )  # fmt: skip


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
        yield (
            row.process, row.id, row.stack, row.function, row.origin, row.key, *_place(row.location),
            *_place(row.caller), row.parent, row.caused_by, row.reason, row.outcome, row.variant.n, row.variant.limit,
            interval.index, interval.name, interval.step, segment.start_ns, row.wall_ns,
            *((why.cause, why.pattern, why.argument, why.before, why.after, why.confidence, why.advice) if why
              else (None,) * 7),
        )  # fmt: skip


def _changes(trace: Trace) -> Rows:
    functions = {row.id: row.function for row in trace.compiles}
    for row in trace.recompiles:
        for change in row.changes:
            yield (
                row.process, row.compile, row.previous, functions.get(row.compile), change.argument, change.mechanism,
                change.before, change.after,
            )  # fmt: skip


def _findings(trace: Trace) -> Rows:
    for row in trace.findings:
        yield (
            row.process, row.id, row.kind, row.severity, row.interval, row.step, row.cost_ns, *_place(row.location),
            row.text, row.advice, row.evidence, row.refs,
        )  # fmt: skip


def _place(location: Location | None) -> tuple[str | None, int | None]:
    return (location.file, location.line) if location else (None, None)
