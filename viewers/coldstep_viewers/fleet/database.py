"""A fleet's tables in DuckDB, which reaches nothing else: what answers come from.

`members` has a row for each process: who it is, and its peers, with which it is held together: the ranks of its job; of
what runs alone, the runs of one script at one commit, or on one day where no commit is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from coldstep.vocabulary import OURS, is_of_program, is_option
from coldstep_viewers.export.sealed import QueryError, sealed
from coldstep_viewers.export.tables import SCHEMAS
from coldstep_viewers.fleet.places import FleetError
from coldstep_viewers.fleet.store import Marker, Store, superseded

_MOST_NAMES = 100_000

_MEMBERS = r"""
create temp table members as
with named as (
    select p.*, r.label_commit as commit,
        coalesce(r.label_job, case when r.processes > 1 then 'of trace ' || r.run end) as job,
        coalesce(r.label_pod, p.host) as place, r.error,
        coalesce(nullif(regexp_extract(r.command, '([^/ ]+\.py|-m [^ ]+)', 1), ''), r.command) as script,
        strftime(p.started, '%Y-%m-%d') as day
    from processes p join runs r using (run)
), counted as (
    select *, case when job is null then 1 else count(*) over (partition by job) end as in_job from named
)
select *,
    case when in_job > 1 then 'job ' || job when commit is not null then 'commit ' || commit else day end
        || ', ' || script as peers,
    case when rank is null then place when in_job > 1 then 'rank ' || rank || ' of job ' || job
         else 'rank ' || rank || ' on ' || place end as who
from counted
"""
_ODD = f"""
create temp table odd as
select distinct run from (
    select run, wall_ns as ns, started from every_processes
    union all select run, before_trace_ns, started from every_processes
    union all select run, wall_ns, started from every_intervals
    union all select run, wall_ns, started from every_compiles
    union all select run, cost_ns, started from every_findings
    union all select run, ns, started from every_phases
) where run is not null
    and (ns is null or started is null or ns not between 0 and {1 << 53}
         or started not between timestamptz '0001-01-02' and timestamptz '9999-12-30')
"""
_FIRSTS = """
create temp table firsts as select run, process, min(time_to_first_step_ns) as first_ns from costs group by all
"""
_COLD = """
create temp table cold as
with first as (select run, process, min(interval) as until from intervals where kind = 'step' and step = 0 group by all)
select run, process, phase, sum(ns)::bigint as ns from phases join first using (run, process)
where interval <= until group by all
"""


class Database:
    """The tables, to be asked."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, markers: list[Marker]) -> None:
        self._connection = connection
        self.markers = markers

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The answer to a question whose rows are few."""
        return list(self._connection.sql(statement, params=list(values)).to_arrow_table().to_pylist())

    def value(self, statement: str) -> Any:
        """A single value."""
        [row] = self.rows(statement)
        return next(iter(row.values()))


@contextmanager
def opened(store: Store, markers: list[Marker], lost: list[str]) -> Iterator[Database]:
    """The tables of these batches; traces in them that make no sense are reported to `lost`. Raises FleetError where
    there are none, or an answer cannot be had."""
    text = store.text
    if not any(marker.files for marker in markers):
        none = f"{text} holds no tables: make them with coldstep fleet load SOURCE -o {text}"
        raise FleetError(lost[0] if lost else none)
    try:
        with sealed(partial(_register, store, markers, lost)) as connection:
            database = Database(connection, markers)
            _register_words(connection, database)
            yield database
    except (QueryError, pa.ArrowException, OSError) as error:
        raise FleetError(f"cannot answer from {text}: {' '.join(str(error).split())[:300]}") from None


def _register(store: Store, markers: list[Marker], lost: list[str], connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables known, but for the traces that make no sense: a line of each goes to `lost`."""
    again = sorted(superseded(markers))
    batches = pa.array([batch for batch, _ in again], pa.string())
    connection.register("superseded", pa.table({"batch": batches, "run": [run for _, run in again]}))
    for name in SCHEMAS:
        connection.register(f"every_{name}", store.dataset(name, markers))
    connection.execute(_ODD)
    kept = "and (batch, run) not in (select (batch, run) from superseded)" if again else ""
    for name in SCHEMAS:
        wanted = f"where run is not null and run not in (select run from odd) {kept}"
        connection.execute(f"create temp view {name} as select * from every_{name} {wanted}")
    connection.execute("set timezone = 'UTC'")
    for statement in (_MEMBERS, _FIRSTS, _COLD):
        connection.execute(statement)
    odd = {run for (run,) in connection.execute("select run from odd").fetchall()}
    uris = {each.run: each.uri for marker in markers for each in marker.objects}
    lost += [f"{uris.get(run, run)}: its times make no sense" for run in sorted(odd)]


def _register_words(connection: duckdb.DuckDBPyConnection, database: Database) -> None:
    """Which phases compile, and which parts of a cache's key are none of the program's."""
    compiling = [row.name for row in OURS.phases.values() if row.compiles]
    names = database.rows(f"select distinct name from components limit {_MOST_NAMES}")
    settings = [row["name"] for row in names if not is_of_program(row["name"])]
    connection.register("compiling", pa.table({"phase": compiling}))
    options = [is_option(name) for name in settings]
    columns = {"name": pa.array(settings, pa.string()), "is_option": pa.array(options, pa.bool_())}
    connection.register("settings", pa.table(columns))
