"""When a job was ready, and what compiled after `coldstep.ready()`: words and code that several viewers show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from coldstep._util.figures import count, duration
from coldstep.model import Compile, Readiness, Trace, Violation
from coldstep.rows.processes import name as process
from coldstep_viewers.report.ledger import waited
from coldstep_viewers.safe_text import plain, short

_MOST_PROCESSES, _MOST_PARTS, _MOST_WAITS = 16, 5, 3
_SMALL = 50  # of a process's time: a smaller part of it is not named


def job_title(trace: Trace) -> str:
    """When a job was ready, and what shows that: "Ready 48 s after server began, when it …"."""
    row = trace.job_ready
    if row is None:
        return ""
    shown = {
        "ready": "called coldstep.ready()",
        "settled": f"compiled nothing more in {short(row.name)}",
        "response": "sent its first response",
    }[row.by]
    first = min(row.processes, key=lambda each: each.start_ns).process
    return f"Ready {duration(row.ns)} after {process(trace, first)} began, when {process(trace, row.process)} {shown}"


def job_lines(trace: Trace) -> Iterator[tuple[str, str, str]]:
    """Of each process its name, how much of the job's start it lived, and what it did in that, the longest first."""
    row = trace.job_ready
    for each in row.processes[:_MOST_PROCESSES] if row is not None else ():
        did = [(ns, f"{trace.vocabulary.phase(phase)} {duration(ns)}") for phase, ns in each.phases.items()]
        did.append((each.before_trace_ns, f"before its trace {duration(each.before_trace_ns)}"))
        waits = sum(wait.ns for wait in each.waiting)
        if waits:
            did.append((waits, "; ".join(islice(waited(trace, each.waiting), _MOST_WAITS))))
        rest = each.ns - each.before_trace_ns - sum(each.phases.values()) - waits
        did.append((rest, f"unattributed {duration(rest)}"))
        least = max(1, each.ns // _SMALL)
        words = [words for ns, words in sorted(did, reverse=True)[:_MOST_PARTS] if ns >= least]
        yield process(trace, each.process), duration(each.ns), "; ".join(words)


def number_of(trace: Trace) -> str:
    """How much compiled, as far as it was seen: "2", "at least 2"."""
    number = sum(row.compiles_after for row in trace.readiness)
    unseen = any(row.why for row in trace.readiness)
    return f"at least {number}" if unseen and number else "not known" if unseen else str(number)


def heading(trace: Trace, row: Readiness) -> str:
    """One `ready()`, and what came after it."""
    whose = f"{process(trace, row.process)}, " if len(trace.processes) > 1 else ""
    loaded = {*row.loads}
    spent = sum(violation.cost_ns for violation in row.violations if violation.compile not in loaded)
    words = f"{count(row.compiles_after, 'compile')}, {duration(spent)} in all" if row.compiles_after else ""
    nothing = "nothing compiled" if row.why is None else "no compile was seen"
    words = "; ".join(filter(None, (words, _loads([row]), _builds(trace, [row])))) or nothing
    if row.why:
        words += f"; not all could be seen: {row.why}"
    return f"{whose}{short(row.name)}, {duration(row.ready_ns)} after the trace began: {words}"


def clause(trace: Trace) -> str | None:
    """The same in a headline; None where `ready()` was not called."""
    if not trace.readiness:
        return None
    number, names = number_of(trace), {row.name for row in trace.readiness}
    after = f"after {short(next(iter(names)))}" if len(names) == 1 else "after ready"
    if number == "not known":
        return f"what compiled {after} is not known"
    others = [f"{words} {after}" for words in (_loads(trace.readiness), _builds(trace, trace.readiness)) if words]
    if number == "0":
        return "; ".join(others) or f"nothing compiled {after}"
    return "; ".join([f"{number} compile{'' if number == '1' else 's'} {after}", *others])


def _loads(rows: Iterable[Readiness]) -> str:
    """What came from disk caches, and how long that took: "1 program loaded from a cache, 310 ms"."""
    own = list(rows)
    number = sum(row.loads_after for row in own)
    took = duration(sum(row.loads_ns for row in own))
    return f"{count(number, 'program')} loaded from a cache, {took}" if number else ""


def _builds(trace: Trace, rows: Iterable[Readiness]) -> str:
    """What was built: "1 build, 20.9 s"."""
    late = {id_ for row in rows for id_ in row.builds}
    built = [row for row in trace.builds if row.id in late]
    return f"{count(len(built), 'build')}, {duration(sum(row.wall_ns for row in built))}" if built else ""


def warm_up(trace: Trace) -> list[str]:
    """The lines that the warm-up lacks, each once: imports, then calls, the costliest first."""
    calls = [call for row in trace.readiness for call in row.calls if call.code is not None]
    calls.sort(key=lambda call: -call.delay_ns)
    lines = [line for call in calls for line in call.imports]
    return [plain(line) for line in dict.fromkeys([*sorted(lines), *(call.code or "" for call in calls)])]


def violations(trace: Trace) -> Iterator[tuple[Compile, Violation, str]]:
    """Each compile that should have been there, the costliest first; and why there is no call for it, where there is
    none."""
    by_id = {row.id: row for row in trace.compiles}
    why = {id_: call.why for row in trace.readiness for call in row.calls for id_ in call.covers}
    all_rows = [violation for row in trace.readiness for violation in row.violations]
    for violation in sorted(all_rows, key=lambda row: -row.cost_ns):
        yield by_id[violation.compile], violation, why.get(violation.compile, "")


def nearest(trace: Trace, violation: Violation) -> str:
    """The warm-up's compile that was nearest, and where it was called; "" where there was none."""
    near = next((row for row in trace.compiles if row.id == violation.nearest), None)
    if near is None:
        return ""
    place = near.caller or near.location
    return f"{near.id} at {place.file}:{place.line}" if place is not None else near.id
