"""What stands out in a fleet: work done twice, and whoever differs from its peers, in what.

A value is usual where at least four fifths of at least five peers have it; whoever has another one differs. Where none
is usual, ranks may well each have their own, and no difference is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coldstep._util.figures import count, duration, listed
from coldstep._util.gathered import gathered
from coldstep._util.median import median
from coldstep.vocabulary import CACHES
from coldstep_viewers.fleet.database import Database
from coldstep_viewers.fleet.sections import DUPLICATED, VERSIONED

KINDS = {
    "duplicated_work": "one program was compiled by several processes",
    "other_setting": "a process compiles with another flag, option or version of its compiler",
    "other_version": "a process has another version of Python or a framework",
    "other_program": "a process compiles another program of a function, or for other arguments",
    "recompiles_alone": "a process recompiles what its peers do not",
    "cache_not_used": "a process loads nothing from a cache from which its peers do",
    "straggler": "a process compiled while its job waited",
    "slow_host": "a machine takes longer to the first step, compiling aside",
    "slower_since": "the first step comes later since a commit or day",
    "ended": "a process ended otherwise than its peers",
}
"""What can be found, with what it means."""

_LEAST_PEERS, _USUAL_SHARE, _RARE_SHARE = 5, 0.8, 0.2
_DUPLICATED_SHARE = 0.05  # of all compile time
_LAG_NS, _LAG_SHARE = 50_000_000, 0.1
_HOST_RATIO, _HOST_NS = 1.5, 1_000_000_000
_SLOWER_RATIO, _LEAST_RUNS = 1.25, 3
_SPREADS = 3  # between quartiles: farther off than chance puts anybody
_MOST = 50
_NAMED = 5
_BETWEEN = "\x1f"
_DEFAULT = "the default"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that stands out."""

    kind: str
    """One of KINDS."""
    text: str
    """A sentence."""
    cost_ns: int = 0
    """What it cost in all; 0 where that is not known."""
    who: list[str] = field(default_factory=list)
    """The first of those that differ."""
    number: int = 0
    """How many they are."""
    among: int = 0
    """Of how many peers, themselves included."""
    peers: str = ""
    """What these have in common."""
    evidence: list[str] = field(default_factory=list)
    """The values."""


def differences(database: Database) -> list[Difference]:
    """All that stand out, the costliest first."""
    questions: tuple[Callable[[Database], Iterator[Difference]], ...] = (
        _duplicated, _settings, _versions, _programs, _recompiles, _caches, _stragglers, _hosts, _slower, _ended,
    )  # fmt: skip
    rows = [each for question in questions for each in question(database)]
    return sorted(rows, key=lambda each: (-each.cost_ns, list(KINDS).index(each.kind), each.text))


def _minorities(observed: str) -> str:
    """Who has another value than is usual; of `observed`: peers, who, what, value, shown, cost_ns."""
    return f"""
    with observed as ({observed}), votes as (
        select peers, what, value, count(*) as n, any_value(shown) as shown from observed group by all
    ), usual as (
        select peers, what, arg_max(value, n) as value, arg_max(shown, n) as shown, sum(n)::bigint as among from votes
        group by peers, what having sum(n) >= {_LEAST_PEERS} and max(n) >= {_USUAL_SHARE} * sum(n) and count(*) > 1
    )
    select o.peers, o.what, o.value, any_value(o.shown) as shown, any_value(u.value) as usual_value,
        any_value(u.shown) as usual, any_value(u.among) as among, count(*) as number,
        list(o.who order by o.who)[1:{_NAMED}] as who, sum(o.cost_ns)::bigint as cost_ns
    from observed o join usual u using (peers, what) where o.value <> u.value
    group by o.peers, o.what, o.value order by number, o.peers, o.what, o.value limit {_MOST}"""


def _others(row: dict[str, Any]) -> str:
    return f"{row['among'] - row['number']} of {row['among']}"


def _who(row: dict[str, Any]) -> str:
    more = row["number"] - len(row["who"])
    return listed([*row["who"], *([f"{more} more"] if more else [])])


def _made(kind: str, row: dict[str, Any], text: str, evidence: list[str] | None = None) -> Difference:
    return Difference(
        kind, text, row.get("cost_ns") or 0, row["who"], row["number"], row["among"], row["peers"], evidence or []
    )


def _values(row: dict[str, Any]) -> tuple[str, str]:
    """The two values in words: of long texts, the lines that only one of them has."""
    own, usual = (row["shown"] or "").splitlines(), (row["usual"] or "").splitlines()
    return (
        _value(row["shown"], [line for line in own if line not in usual], row["value"]),
        _value(row["usual"], [line for line in usual if line not in own], row["usual_value"]),
    )


def _value(text: str | None, lines: list[str], hashed: str) -> str:
    if lines or text == "":
        return "; ".join(lines) or "nothing"
    return f"a value that cannot be shown in words (hash {hashed})"


# --- each question ------------------------------------------------------------------------------------------------


def _duplicated(database: Database) -> Iterator[Difference]:
    whole = database.value("select sum(wall_ns)::bigint from compiles where parent is null") or 0
    for row in database.rows(DUPLICATED):
        if row["saved_ns"] < max(1, _DUPLICATED_SHARE * whole):
            continue
        loads = count(row["processes"] - 1, "load")
        most = "at most " if row["loaded_ns"] is None else ""
        beside = "; what a load takes is not known, for none loads it here" if most else ""
        text = f"{row['function']}: compiled by {row['processes']} processes; one compile and {loads} would have saved "
        text += f"{most}{duration(row['saved_ns'])} of waiting in all of them{beside}"
        proof = [f"program {row['program']}: {duration(row['total_ns'])} in what disk caches cover"]
        yield Difference("duplicated_work", text, row["saved_ns"], number=row["processes"], evidence=proof)


def _settings(database: Database) -> Iterator[Difference]:
    # a program that a process only loads was made with the settings of whoever stored it, which some caches alone show;
    # an option that is not shown is as usual
    observed = f"""
        with settings_of as (
            select run, process, layer, name, any_value(hash) as value, any_value(text) as shown, count(*) as n
            from components join settings using (name) group by run, process, layer, name
        ), own as (select distinct run, process, layer from components),
        stored as (
            select layer, key, min(run) as by_run, min_by(process, run) as by_process from caches c
            where key is not null and exists (
                select 1 from own o where o.run = c.run and o.process = c.process and o.layer = c.layer)
            group by layer, key
        ), sources as (
            select run, process, layer, run as of_run, process as of_process from own
            union all
            select h.run, h.process, h.layer, min(by_run), min_by(by_process, by_run)
            from caches h join stored s using (layer, key) where (h.run, h.process, h.layer) not in (select * from own)
            group by h.run, h.process, h.layer
        ), asked as (select m.peers, m.who, t.* from sources t join members m using (run, process)),
        options as (
            select distinct a.peers, s.layer, s.name from asked a
            join settings_of s on s.run = a.of_run and s.process = a.of_process and s.layer = a.layer
            join settings using (name) where is_option
        )
        select peers, who, s.layer || ': ' || s.name as what, value, shown, 0 as cost_ns from asked a
        join settings_of s on s.run = a.of_run and s.process = a.of_process and s.layer = a.layer where n = 1
        union all
        select peers, who, layer || ': ' || name, '{_DEFAULT}', '{_DEFAULT}', 0 from asked a
        join options o using (peers, layer) where not exists (
            select 1 from settings_of s where s.run = a.of_run and s.process = a.of_process and s.layer = a.layer
                and s.name = o.name)"""
    for row in database.rows(_minorities(observed)):
        name = row["what"].partition(": ")[2]
        own, usual = _values(row)
        text = f"{_who(row)}: {name} is {own}; {usual} in {_others(row)}"
        yield _made("other_setting", row, text, [f"{row['what']}: {own}", f"usual: {usual}"])


def _versions(database: Database) -> Iterator[Difference]:
    observed = f"""
        select peers, who, what, value, value as shown, 0 as cost_ns from (
            unpivot (select peers, who, {VERSIONED} from members)
            on {VERSIONED} into name what value value)"""
    for row in database.rows(_minorities(observed)):
        text = f"{_who(row)}: {row['what']} {row['value']}; {row['usual']} in {_others(row)}"
        yield _made("other_version", row, text)


def _programs(database: Database) -> Iterator[Difference]:
    between = f"chr({ord(_BETWEEN)})"
    observed = f"""
        select m.peers, m.who, c.key as what, c.cost_ns, c.shown,
            coalesce(c.program, 'inputs ' || md5(c.shown)) as value
        from (select run, process, key, min_by(program, start_ns) as program, min_by(wall_ns, start_ns) as cost_ns,
                  any_value(function) || {between} || min_by(coalesce(array_to_string(inputs, {between}), ''), start_ns)
                      as shown
              from compiles where parent is null and reason = 'first' and origin is distinct from 'eager'
              group by run, process, key) c
        join members m using (run, process) where c.program is not null or c.shown is not null"""
    for row in database.rows(_minorities(observed)):
        function, *own = row["shown"].split(_BETWEEN)
        usual = row["usual"].split(_BETWEEN)[1:]
        changed = [(a, b) for a, b in zip(own, usual, strict=False) if a != b]
        how = f"for {changed[0][0]}; {changed[0][1]}" if changed else "as another program; the same one"
        text = f"{_who(row)}: {function} is compiled {how} in {_others(row)}"
        yield _made("other_program", row, text, [f"{a}; usual: {b}" for a, b in changed[:_NAMED]])


def _recompiles(database: Database) -> Iterator[Difference]:
    rows = database.rows(f"""
    with did as (
        select m.peers, m.who, c.key, c.cause, coalesce(c.argument, '') as argument, any_value(c.function) as function,
            any_value(c.before) as before, any_value(c.after) as after, count(*) as times, sum(c.wall_ns) as ns
        from compiles c join members m using (run, process) where c.cause is not null
        group by m.peers, m.who, m.run, m.process, c.key, c.cause, coalesce(c.argument, '')
    ), sizes as (select peers, count(*) as among from members group by peers)
    select peers, any_value(function) as function, cause, argument, any_value(before) as before,
        any_value(after) as after, count(*) as number, any_value(among) as among,
        list(who order by who)[1:{_NAMED}] as who, sum(times)::bigint as times, sum(ns)::bigint as cost_ns
    from did join sizes using (peers) group by peers, key, cause, argument
    having any_value(among) >= {_LEAST_PEERS} and count(*) <= {_RARE_SHARE} * any_value(among)
    order by cost_ns desc, peers, function limit {_MOST}""")
    for row in rows:
        of = f" of {row['argument']}" if row["argument"] else ""
        text = f"{_who(row)}: {count(row['times'], 'recompile')} of {row['function']} ({row['cause']}{of}); "
        text += f"none in {_others(row)}"
        yield _made("recompiles_alone", row, text, [f"{row['before']} → {row['after']}"] if row["before"] else [])


def _caches(database: Database) -> Iterator[Difference]:
    # the first of its peers may have filled the cache
    observed = """
        with layers as (select distinct m.peers, c.layer from caches c join members m using (run, process)),
        asked as (
            select run, process, layer, bool_and(state in ('off', 'bypass')) as off, sum(hits) as hits,
                bool_or(written) as written from caches group by run, process, layer
        ), compiled as (
            select run, process, sum(wall_ns) as ns from compiles where parent is null and outcome = 'compiled'
            group by run, process
        ), states as (
            select m.peers, m.who, m.run, m.process, l.layer as what, coalesce(k.ns, 0)::bigint as cost_ns,
                case when a.layer is null then 'not asked' when a.off then 'off' when a.hits = 0 then 'no hit'
                     else 'hits' end as value,
                coalesce(a.written, false) and
                    row_number() over (partition by m.peers, l.layer order by m.started, m.run, m.process) = 1 as filled
            from members m join layers l using (peers) left join asked a on a.run = m.run and a.process = m.process
                and a.layer = l.layer left join compiled k on k.run = m.run and k.process = m.process
            where exists (select 1 from compiles c where c.run = m.run and c.process = m.process)
        )
        select peers, who, what, value, value as shown, cost_ns from states where not filled"""
    for row in database.rows(_minorities(observed)):
        if row["usual_value"] != "hits":
            continue
        layer = CACHES.get(row["what"], row["what"])
        how = {"off": "is off", "not asked": "was not asked", "no hit": "had nothing for it"}[row["value"]]
        text = f"{_who(row)}: the {layer} {how}; {_others(row)} load from it"
        yield _made("cache_not_used", row, text)


def _stragglers(database: Database) -> Iterator[Difference]:
    # who compiles for longer while most others do not wait, is nobody's trouble, or it is chance
    rows = database.rows(f"""
    with compiling_in as (
        select run, process, interval, sum(ns) as ns from phases
        where kind = 'step' and phase in (select phase from compiling) group by run, process, interval
    ), spent as (
        select i.run, i.process, m.peers, m.who, i.name, i.step, i.wall_ns, coalesce(p.ns, 0) as ns
        from intervals i join members m using (run, process) left join compiling_in p using (run, process, interval)
        where i.kind = 'step' and m.in_job > 1
    ), slow as (
        select peers, name, step, count(*) as among, max(ns) as most, median(ns) as usual, arg_max(who, ns) as who,
            arg_max(wall_ns, ns) as wall_ns, arg_max(run, ns) as run, arg_max(process, ns) as process,
            case when count(*) >= {_LEAST_PEERS} then quantile_cont(ns, 0.75) - quantile_cont(ns, 0.25) else 0 end
                as spread
        from spent group by peers, name, step
        having count(*) > 1 and max(ns) - median(ns) >=
            greatest({_LAG_NS}, {_LAG_SHARE} * arg_max(wall_ns, ns), {_SPREADS} * spread)
    ), waits as (
        select s.peers, s.name, s.step, sum(greatest(0, o.wall_ns - o.ns - (s.wall_ns - s.most))) as waited,
            count(*) filter (2 * (o.wall_ns - o.ns - (s.wall_ns - s.most)) >= s.most - s.usual) as waiting
        from slow s join spent o using (peers, name, step) where o.run <> s.run or o.process <> s.process group by all
    )
    select peers, name, [who] as who, 1 as number, max(among)::bigint as among, count(*) as steps, min(step) as first,
        sum(most - usual)::bigint as longer_ns, sum(waited)::bigint as cost_ns, max(waiting)::bigint as waiting
    from slow join waits using (peers, name, step) where 2 * waiting >= among - 1 group by peers, name, who
    order by cost_ns desc, longer_ns desc, peers, who limit {_MOST}""")
    for row in rows:
        more = f" and {count(row['steps'] - 1, 'more step')}" if row["steps"] > 1 else ""
        longer = duration(row["longer_ns"])
        others = count(row["waiting"], "other process", "other processes")
        text = f"{row['who'][0]} compiled {longer} longer in step {row['first']} of {row['name']}{more}; "
        text += f"{others} waited for it, {duration(row['cost_ns'])} in sum"
        yield _made("straggler", row, text)


def _hosts(database: Database) -> Iterator[Difference]:
    rows = database.rows(f"""
    with quiet as (
        select m.peers, m.host, m.run, m.process, f.first_ns - coalesce(sum(c.ns), 0) as ns
        from members m join firsts f using (run, process)
        left join (from cold where phase in (select phase from compiling)) c using (run, process)
        group by m.peers, m.host, m.run, m.process, f.first_ns
    ), hosts as (select peers, host, median(ns) as ns, count(*) as number from quiet group by peers, host),
    usual as (
        select peers, median(ns) as ns, quantile_cont(ns, 0.75) - quantile_cont(ns, 0.25) as spread,
            sum(number)::bigint as among
        from hosts group by peers having count(*) >= {_LEAST_PEERS}
    )
    select h.peers, [h.host] as who, h.host, h.number, u.among, h.ns::bigint as ns, u.ns::bigint as usual_ns,
        (h.number * (h.ns - u.ns))::bigint as cost_ns
    from hosts h join usual u using (peers)
    where h.ns > {_HOST_RATIO} * u.ns and h.ns - u.ns > greatest({_HOST_NS}, {_SPREADS} * u.spread)
    order by cost_ns desc, h.host limit {_MOST}""")
    for row in rows:
        own, usual = duration(row["ns"]), duration(row["usual_ns"])
        grown = _grown(database, row["host"], row["peers"])
        text = f"{row['host']}: {own} to the first step beside compiling, {usual} elsewhere{grown}"
        yield _made("slow_host", row, text)


def _grown(database: Database, host: str, peers: str) -> str:
    """The phase that most of it is in."""
    observed = """
        select c.phase, c.ns, m.host = ? as slow from cold c join members m using (run, process) where m.peers = ?
        union all select 'before the trace', m.before_trace_ns, m.host = ? from members m where m.peers = ?"""
    return _most_grown(database, observed, [host, peers, host, peers])


def _most_grown(database: Database, observed: str, values: list[str]) -> str:
    """The phase of which those that are slow have most more; of `observed`: phase, ns, slow."""
    phases = database.rows(
        f"""
        select phase, (median(ns) filter (slow) - coalesce(median(ns) filter (not slow), 0))::bigint as more
        from ({observed}) group by phase having more > 0 order by more desc limit 1""",
        values,
    )
    return f": {phases[0]['phase']} {duration(phases[0]['more'])} more" if phases else ""


def _slower(database: Database) -> Iterator[Difference]:
    """Since which commit, or day where commits are not known, a script's first step comes later."""
    rows = database.rows("""
        select m.script, coalesce(m.commit, m.day) as version, min(m.started)::text as began, count(*) as n,
            median(f.first_ns)::bigint as ns,
            (quantile_cont(f.first_ns, 0.75) - quantile_cont(f.first_ns, 0.25))::bigint as spread
        from members m join firsts f using (run, process) group by all order by script, began""")
    scripts = gathered((row["script"], row) for row in rows)
    for script, versions in scripts.items():
        best: tuple[float, int] = 0.0, 0
        for at in range(1, len(versions)):
            before, after = _typical(versions[:at]), _typical(versions[at:])
            enough = min(sum(row["n"] for row in part) for part in (versions[:at], versions[at:])) >= _LEAST_RUNS
            spread = max(row["spread"] for row in versions)
            slower = after - before
            if enough and after > _SLOWER_RATIO * before and slower > _SPREADS * spread:
                # the split that explains most: large, with as little as possible left on either side
                best = max(best, (slower - _scatter(versions[:at]) - _scatter(versions[at:]), at))
        if best[1]:
            at = best[1]
            before, after = _typical(versions[:at]), _typical(versions[at:])
            since = versions[at]["version"]
            number = sum(row["n"] for row in versions[at:])
            grown = _since(database, script, versions[at]["began"])
            text = f"{script}: the first step is done after {duration(after)} since {since[:12]}, "
            text += f"after {duration(before)} before{grown}"
            among = sum(row["n"] for row in versions)
            yield Difference("slower_since", text, round(number * (after - before)), [since], number, among, script)


def _typical(versions: list[dict[str, Any]]) -> float:
    return float(median(row["ns"] for row in versions))


def _scatter(versions: list[dict[str, Any]]) -> float:
    middle = _typical(versions)
    return float(median(abs(row["ns"] - middle) for row in versions) + max(abs(row["ns"] - middle) for row in versions))


def _since(database: Database, script: str, began: str) -> str:
    observed = """
        select c.phase, c.ns, m.started >= ?::timestamptz as slow from cold c join members m using (run, process)
        where m.script = ?"""
    return _most_grown(database, observed, [began, script])


def _ended(database: Database) -> Iterator[Difference]:
    observed = """
        select peers, who, 'ended' as what, ended as value, error as shown, 0 as cost_ns from members"""
    for row in database.rows(_minorities(observed)):
        why = f": {row['shown']}" if row["shown"] else ""
        text = f"{_who(row)}: ended by {row['value']}{why}; {row['usual_value']} in {_others(row)}"
        yield _made("ended", row, text)
