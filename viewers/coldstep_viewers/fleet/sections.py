"""Sums over a fleet's tables: a question each, whose answer is a table of few rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coldstep.vocabulary import FRAMEWORKS
from coldstep_viewers.fleet.database import Database

Rows = list[dict[str, Any]]
_MOST = 20
_PERCENTILES = (0.5, 0.95, 0.99)
_MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the report."""

    name: str
    """In the JSON."""
    title: str
    about: str
    """How to read it."""
    rows: Rows


DUPLICATED = f"""
with own as (
    select program, any_value(function) as function, run, process, sum(cacheable_ns) as ns from compiles
    where program is not null and outcome = 'compiled' and parent is null and cacheable_ns > 0
    group by program, run, process
), loaded as (
    select program, median(cacheable_ns)::bigint as loaded_ns from compiles
    where outcome = 'cache_hit' and parent is null group by program
), summed as (
    select program, any_value(function) as function, count(*) as processes, sum(ns)::bigint as total_ns,
        max(ns)::bigint as longest_ns, any_value(loaded_ns) as loaded_ns
    from own left join loaded using (program) group by program having count(*) > 1
)
select function, program, processes, total_ns, loaded_ns,
    greatest(0, total_ns - longest_ns - (processes - 1) * coalesce(loaded_ns, 0))::bigint as saved_ns
from summed order by saved_ns desc, program limit {_MOST}
"""
_SLOWEST = f"""
with days as (
    select key, any_value(function) as function, any_value(file) as file, any_value(line) as line,
        strftime(started, '%Y-%m-%d') as day, count(*) as compiles,
        count(distinct (run, process)) as processes, sum(wall_ns) as ns, median(wall_ns) as median_ns
    from compiles where parent is null and outcome = 'compiled' and origin is distinct from 'eager' group by key, day
)
select any_value(function) as function, any_value(file) as file, any_value(line) as line,
    sum(compiles)::bigint as compiles, sum(ns)::bigint as total_ns,
    (sum(ns) / sum(compiles))::bigint as mean_ns, min(day) as first_day,
    arg_min(median_ns, day)::bigint as median_then_ns, max(day) as last_day,
    arg_max(median_ns, day)::bigint as median_last_ns
from days group by key order by total_ns desc, key limit {_MOST}
"""
_RECOMPILES = f"""
select cause, any_value(function) as function, file, line, argument, count(*) as recompiles,
    count(distinct (run, process)) as processes, sum(wall_ns)::bigint as total_ns, any_value(before) as before,
    any_value(after) as after
from compiles where cause is not null group by cause, key, file, line, argument
order by total_ns desc, cause, file, line limit {_MOST}
"""
_CACHES = """
select layer, sum(count)::bigint as asked, sum(hits)::bigint as hits, sum(hits) / nullif(sum(count), 0) as hit_share,
    count(distinct (run, process)) as processes, sum(load_ns)::bigint as load_ns, sum(saved_ns)::bigint as saved_ns
from caches where state not in ('off', 'bypass') group by layer order by layer
"""
VERSIONED = ", ".join(("python", *FRAMEWORKS))
"""The columns of a process's versions."""
_VERSIONS = f"""
select package, version, count(*) as processes from (
    unpivot (select {VERSIONED} from members)
    on columns(*) into name package value version
) group by all order by package, processes desc, version limit 100
"""
_ENDED = "select ended, count(*) as processes from members group by ended order by processes desc"
_SKEW = f"""
select m.peers as job, i.name, i.step, count(*) as processes, min(i.wall_ns)::bigint as fastest_ns,
    median(i.wall_ns)::bigint as median_ns, max(i.wall_ns)::bigint as slowest_ns, arg_max(m.who, i.wall_ns) as who
from intervals i join members m using (run, process) where i.kind = 'step' and m.in_job > 1
group by m.peers, i.name, i.step having count(*) > 1 order by slowest_ns - fastest_ns desc, job, step limit {_MOST}
"""
_AT = """
with ranked as (
    select run, process, who, first_ns, row_number() over (order by first_ns, run, process) as n,
        count(*) over () as of_all
    from firsts join members using (run, process)
)
select run, process, who, first_ns from ranked where n = greatest(1, ceil(? * of_all))
"""
_LEDGER = """
select phase, ns from (
    select phase, ns from cold where run = ? and process = ?
    union all select 'before the trace', before_trace_ns from members where run = ? and process = ?
) where ns > 0 order by ns desc limit 6
"""
_GROUPS = """
with per as (
    select m.*, f.first_ns, c.compile_ns, c.recompiles, h.asked, h.hits from members m
    left join firsts f using (run, process)
    left join (select run, process, sum(wall_ns) filter (parent is null) as compile_ns, count(cause) as recompiles
               from compiles group by run, process) c using (run, process)
    left join (select run, process, sum(count) as asked, sum(hits) as hits from caches
               where state not in ('off', 'bypass') group by run, process) h using (run, process)
), summed as (
    select {by}::text as "{by}", count(*) as processes, quantile_disc(first_ns, 0.5)::bigint as first_p50_ns,
        quantile_disc(first_ns, 0.95)::bigint as first_p95_ns, sum(compile_ns)::bigint as compile_ns,
        sum(recompiles)::bigint as recompiles, sum(hits) / nullif(sum(asked), 0) as hit_share, min({order}) as turn,
        count(*) over () as of_all
    from per group by {by} order by {kept} desc nulls last limit {most}
)
from summed order by turn nulls last
"""


def sections(database: Database, by: str | None) -> list[Section]:
    """All of the report's."""
    saved = "of the time that disk caches cover, what one compile of each and loads would have saved"
    questions = (
        ("duplicated", "Compiled more than once", saved, DUPLICATED),
        ("programs", "Slowest programs", "all compiles of a function; medians of its first and last day", _SLOWEST),
        ("recompiles", "Recompiles", "by cause and place", _RECOMPILES),
        ("skew", "Skew", "the steps in which the processes of a job differ most", _SKEW),
        ("caches", "Disk caches", "by layer; without those that were off or passed by", _CACHES),
        ("versions", "Versions", "", _VERSIONS),
        ("ended", "How they ended", "", _ENDED),
    )
    first = "from the start of a process to the end of its first step"
    cold = Section("cold_start", "Cold start", first, _cold(database))
    made = [cold, *(Section(name, title, about, database.rows(asked)) for name, title, about, asked in questions)]
    if by is not None:
        made.insert(0, _groups(database, by))
    return made


def _cold(database: Database) -> Rows:
    return [
        {"percentile": round(share * 100), "first_ns": row["first_ns"], "who": row["who"],
         "ledger": database.rows(_LEDGER, 2 * [row["run"], row["process"]])}
        for share in _PERCENTILES
        for row in database.rows(_AT, [share])
    ]  # fmt: skip


def _groups(database: Database, by: str) -> Section:
    """Days and commits in the order of time, the last of them; ranks in theirs, others by time, the slowest of them."""
    in_time = by in ("day", "commit")
    order, kept = ("started", "turn") if in_time else ("rank" if by == "rank" else "-first_ns", "first_p95_ns")
    rows = database.rows(_GROUPS.format(by=by, order=order, kept=kept, most=_MOST_GROUPS))
    number = max((row.pop("of_all") for row in rows), default=0)
    for row in rows:
        del row["turn"]
    which = "last" if in_time else "slowest"
    return Section("by", f"By {by}", f"the {len(rows)} {which} of {number:,}" if number > len(rows) else "", rows)
