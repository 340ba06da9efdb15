"""SQL over as many traces as there are, in DuckDB.

A trace is read once: its tables are kept, by the file's content, in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import coldstep
from coldstep.errors import TraceError, damaged
from coldstep.loading import load
from coldstep.recording.garbage import none_collected
from coldstep_viewers.export import parquet, tables
from coldstep_viewers.export.parquet import dataset, export, exported
from coldstep_viewers.export.sealed import QueryError, sealed
from coldstep_viewers.export.tables import SCHEMAS, run_of

_ANSWERED = ("SELECT", "EXPLAIN", "MULTI")  # MULTI: a pivot
_KEPT_DAYS = 30
_BATCH = 10_000


@dataclass(slots=True)
class Answer:
    """The rows that a statement gave, in batches, and their columns."""

    columns: list[str]
    batches: Iterator[list[dict[str, Any]]]


@contextmanager
def query(paths: Sequence[Path], statement: str, problem: Callable[[str], None]) -> Iterator[Answer]:
    """The answer to `statement` over the tables of all traces at `paths`.

    A file that is no trace is left out, and reported to `problem`. Raises TraceError where that leaves none, QueryError
    for a statement that is no question to these tables, takes too long, or is refused by the engine.
    """
    with _cache() as cache:
        files = _kept(paths, cache, problem)
        if not files:
            raise TraceError("no trace could be read")
        with sealed(partial(_views, files, cache)) as connection:
            relation = connection.sql(_question(connection, statement))
            yield Answer(relation.columns, (batch.to_pylist() for batch in relation.to_arrow_reader(_BATCH)))


def _question(connection: duckdb.DuckDBPyConnection, statement: str) -> str:
    """The statement, which only asks. Raises QueryError for any other."""
    kinds = [each.type.name for each in connection.extract_statements(statement)]
    if len(kinds) != 1 or kinds[0] not in _ANSWERED:
        what = "selects nothing" if not kinds else "is several" if len(kinds) > 1 else f"is {kinds[0]}, no question"
        raise QueryError(f"the statement {what}: give one select")
    return statement


def _views(files: list[tuple[str, str]], cache: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """One view per table, in which each row says the trace that it is of; copies of a trace each have their own."""
    traces, runs = zip(*files, strict=True)
    connection.register("files", pa.table({"trace": traces, "run": runs}))
    for name, schema in SCHEMAS.items():
        kept = exported(name, cache)
        parts = [kept[run] for run in dict.fromkeys(runs)]
        # each trace has columns for its own labels
        labels = {label for part in parts for label in pq.read_schema(part).names} if name == "runs" else set()
        rows = connection.from_arrow(dataset(name, parts, sorted(labels - set(schema.names))))
        connection.table("files").join(rows, "run").create_view(name)


def _kept(paths: Sequence[Path], cache: Path, problem: Callable[[str], None]) -> list[tuple[str, str]]:
    """Path and run of each trace, once its tables are in the cache."""
    runs: dict[Path, str] = {}
    for path in paths:
        try:
            runs[path] = run_of(path)
        except OSError as error:
            problem(f"cannot read {path}: {error.strerror}")
    kept = set.intersection(*({*exported(name, cache)} for name in SCHEMAS))
    missing = {run: path for path, run in runs.items() if run not in kept}
    jobs = [(str(path), run, str(cache)) for run, path in missing.items()]
    bad = {run: wrong for run, wrong in _read_all(jobs) if wrong}
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
    try:
        with none_collected(), damaged(path):
            named = tables.tables(load(path, job=False), run)
    except TraceError as error:
        return run, str(error)
    export(named, Path(cache), run)
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
    digest = hashlib.blake2b(digest_size=8)
    ours = Path(tables.__file__), Path(parquet.__file__)
    for file in (*ours, *sorted(Path(coldstep.__file__).parent.rglob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()
