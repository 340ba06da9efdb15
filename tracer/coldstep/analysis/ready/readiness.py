"""What compiled after a process was declared warmed up: why, and which calls the warm-up lacks."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence

from coldstep._util.figures import listed
from coldstep._util.gathered import gathered
from coldstep._util.slotted import slotted
from coldstep.analysis.make_finding import About, finding, in_step, of_compile
from coldstep.analysis.ready.missing_call import Written, written
from coldstep.analysis.recompiles.rows import explain
from coldstep.analysis.unobserved import unknown, untraced, untraced_words
from coldstep.blind_spots import COMPILES
from coldstep.model import Build, Change, Compile, Finding, Readiness, Ready, Recompile, Trace, Violation, WarmUpCall
from coldstep.rows.processes import nearest_above
from coldstep.rows.spans import covered
from coldstep.rows.variants import LOADED, is_late
from coldstep.signature import array_of, nearest

FIRST = "first"
"""The cause of a violation of whose function nothing was compiled in the warm-up."""
_MOST_CHANGES = 5  # that a sentence tells
_COMPARED = 256  # of the warm-up's compiles of one function, with which a later one is compared
_MOST_READY = 100  # times that a process says it: what follows the last of these counts for that one
_STORIES = ("optimizer_state", "gradient_state", "pending_setup", "host_read")
_UNSEEN = "nothing of it was compiled in the warm-up"
_STILL = "it was still being compiled"
_EQUAL = "nothing that could be seen"


def readiness(trace: Trace) -> list[Readiness]:
    """A row for each time that a process was declared warmed up; in a job also for the processes below it."""
    by_process = gathered((row.process, row) for row in trace.ready)
    for process in trace.processes if trace.run.job is not None else ():
        if process.index not in by_process and (above := nearest_above(trace, process, by_process)) is not None:
            by_process[process.index] = [Ready(process.index, row.name, row.ns, None) for row in by_process[above]]
    rows = []
    for of_process in by_process.values():
        first = of_process[:_MOST_READY]
        until = [*(later.ns for later in first[1:]), None]
        rows += [_Look(trace, row, ns).row() for row, ns in zip(first, until, strict=True)]
    return rows


@slotted
class _Late:
    """A violation, and how it is cured."""

    compile: Compile
    violation: Violation
    written: Written


class _Look:
    """Looks at what compiled from one `ready()` to the next."""

    def __init__(self, trace: Trace, ready: Ready, until: int | None) -> None:
        self._trace, self._ready, self._until = trace, ready, until
        own = [row for row in trace.compiles if row.process == ready.process]
        self._recompiles = {row.compile: row for row in trace.recompiles}
        self._warm: dict[object, list[Compile]] = defaultdict(list)
        for row in own:
            if row.outcome in ("compiled", "cache_hit") and self._ended(row) <= ready.ns:
                self._warm[trace.details[row.id].identity].append(row)
                self._warm[row.key, row.function].append(row)
        self._after = [row for row in own if self._is_after(row)]

    def row(self) -> Readiness:
        """The row of this `ready()`."""
        late: list[_Late] = []
        loads: list[Compile] = []
        listed_ids: set[str] = set()
        for row in self._after:
            must_not_be = is_late(row, self._cost(row))
            if row.parent in listed_ids or not (must_not_be or row.outcome == LOADED):
                continue
            listed_ids.add(row.id)
            loads += [row] if row.outcome == LOADED else []
            late += [self._look_at(row)] if must_not_be else []
        return Readiness(
            process=self._ready.process,
            name=self._ready.name,
            ready_ns=self._ready.ns,
            compiles_after=sum(row.compile.outcome != LOADED for row in late),
            loads_after=len(loads),
            violations=[row.violation for row in late],
            calls=self._calls(late),
            loads=[row.id for row in loads],
            loads_ns=sum(map(self._cost, loads)),
            builds=[each.id for each in self._trace.builds if self._is_late_build(each)],
            why=self._unseen(),
        )

    def _unseen(self) -> str | None:
        """Why more may have compiled since: here, or in processes below."""
        process, since = self._ready.process, self._ready.ns
        below = untraced_words(untraced(self._trace, process, since))
        return ", ".join(filter(None, (unknown(self._trace, COMPILES, process, since), below))) or None

    # --- what is late -----------------------------------------------------------------------------------------

    def _ended(self, row: Compile) -> int:
        return max(each.start_ns + each.wall_ns for each in row.segments)

    def _is_after(self, row: Compile) -> bool:
        """Whether some of it was compiled after this `ready()`, and not only after the next."""
        begins = [each.start_ns for each in row.segments if each.start_ns + each.wall_ns > self._ready.ns]
        return bool(begins) and (self._until is None or min(begins) < self._until)

    def _is_late_build(self, row: Build) -> bool:
        until = self._until if self._until is not None else sys.maxsize
        is_own = row.process == self._ready.process and row.state != "loaded"
        return is_own and row.start_ns + row.wall_ns > self._ready.ns and row.start_ns < until

    def _look_at(self, row: Compile) -> _Late:
        warm = self._alike(row)
        signatures = [self._trace.details[each.id].signature for each in warm]
        near = warm[nearest(signatures, self._trace.details[row.id].signature)] if warm else None
        cause, changes = self._cause(row, near)
        first = changes[0] if changes else None
        violation = Violation(
            compile=row.id,
            cause=cause,
            argument=first.argument if first is not None else None,
            nearest=near.id if near is not None else None,
            differs=self._differs(row, near, changes),
            cost_ns=self._cost(row),
        )
        if self._is_later_part(row):
            return _Late(row, violation, Written(None, f"call it as before, and run its {self._part(row)}"))
        return _Late(row, violation, written(self._trace, row, near, warm, changes, self._ready.stack))

    def _alike(self, row: Compile) -> list[Compile]:
        """The warm-up's compiles of its identity, else of its function; of many the latest."""
        same = self._warm.get(self._trace.details[row.id].identity) or self._warm.get((row.key, row.function)) or []
        return same[-_COMPARED:]

    def _is_later_part(self, row: Compile) -> bool:
        """Whether only a further part of it is late: a backward that the warm-up never ran."""
        return any(each.start_ns + each.wall_ns <= self._ready.ns for each in row.segments)

    def _part(self, row: Compile) -> str:
        return next(each.part for each in row.segments if each.start_ns + each.wall_ns > self._ready.ns)

    def _cause(self, row: Compile, near: Compile | None) -> tuple[str, list[Change]]:
        """Why it was compiled: a word, and what differs from the warm-up's nearest, the cause first."""
        if near is None or self._is_later_part(row):
            return FIRST, []
        again: Recompile | None = self._recompiles.get(row.id)
        why = explain(self._trace, row, near)
        if again is not None and (again.previous == near.id or again.cause in _STORIES or why.change is None):
            cause = again.cause, again.argument
            return again.cause, sorted(again.changes, key=lambda each: (each.mechanism, each.argument) != cause)
        if why.change is None:
            return "unknown", why.changes
        return why.change.mechanism, [why.change, *(each for each in why.changes if each is not why.change)]

    def _differs(self, row: Compile, near: Compile | None, changes: Sequence[Change]) -> str:
        if self._began(row) < self._ready.ns:
            return _STILL
        if self._is_later_part(row):
            return f"its {self._part(row)} was not run in the warm-up"
        if near is None:
            return _UNSEEN
        sides = ((each.argument or each.mechanism, each.before or "none", each.after or "none") for each in changes)
        return listed([f"{name}: {before} → {after}" for name, before, after in sides], _MOST_CHANGES) or _EQUAL

    def _began(self, row: Compile) -> int:
        """When what ended after `ready()` began."""
        return min(each.start_ns for each in row.segments if each.start_ns + each.wall_ns > self._ready.ns)

    def _cost(self, row: Compile) -> int:
        """How long it took from `ready()` on, nothing counted twice."""
        since = self._ready.ns
        return covered((max(each.start_ns, since), each.start_ns + each.wall_ns) for each in row.segments)

    # --- what would have helped -------------------------------------------------------------------------------

    def _calls(self, late: list[_Late]) -> list[WarmUpCall]:
        """The fewest calls: of those that are left, the one that covers the most comes next. What covers another
        covers what that covers, so this is the smallest set."""
        covers = self._covers(late)
        left = set(range(len(late)))
        calls = []
        while left:
            able = [at for at in range(len(late)) if covers[at] & left]
            best = max(able, key=lambda at: (late[at].written.code is not None, len(covers[at] & left), -at))
            covered = sorted(covers[best] & left)
            left -= covers[best]
            one = late[best].written
            delay = sum(late[n].violation.cost_ns for n in covered)
            calls.append(WarmUpCall(one.code, one.imports, one.why, [late[n].compile.id for n in covered], delay))
        return sorted(calls, key=lambda call: -call.delay_ns)

    def _covers(self, late: list[_Late]) -> list[set[int]]:
        """Of each, which would have been compiled by the call that leads to it: what that call itself makes, what the
        function calls, and what fits into what it leaves open."""
        alike: dict[object, set[int]] = defaultdict(set)
        for at, each in enumerate(late):
            row = each.compile
            alike["code", each.written.code or row.id].add(at)
            alike["identity", self._trace.details[row.id].identity].add(at)
            for place in (row.caller, row.location if row.caused_by is not None else None):
                if place is not None:
                    alike[_moment(row), place.file, place.function].add(at)
            if row.stack == "torch_xla" and row.caller is not None:
                alike[_moment(row), row.caller.file, row.caller.line].add(at)
        covered = []
        for at, each in enumerate(late):
            row, caller, within = each.compile, each.compile.caller, self._trace.details[each.compile.id].within
            where = within.location if within is not None else row.location
            numbers = {at} | alike["code", each.written.code or row.id]
            called = alike.get((_moment(row), where.file, where.function), set()) if where is not None else set()
            if row.stack == "dynamo" and caller is not None:  # whose graph torch_xla compiles
                called = called | alike.get((_moment(row), caller.file, caller.line), set())
            numbers |= {n for n in called if self._began(late[n].compile) >= self._began(row)}
            if self._trace.details[row.id].dynamic:
                same = alike["identity", self._trace.details[row.id].identity]
                numbers |= {n for n in same if self._takes(row, late[n].compile)}
            covered.append(numbers)
        return covered

    def _takes(self, one: Compile, other: Compile) -> bool:
        """Whether what the one left open of its arguments takes the other's: dimensions in which it differs from all
        of the warm-up's, of sizes that PyTorch does not treat apart."""
        details = self._trace.details
        known, then = details[one.id], details[other.id]
        if known.identity != then.identity or not known.identity or known.signature.context != then.signature.context:
            return False
        inputs, theirs = known.signature.inputs, then.signature.inputs
        if inputs.keys() != theirs.keys():
            return False
        open_ = known.dynamic or {}
        for name, type_ in inputs.items():
            if type_ == theirs[name]:
                continue
            dimensions = open_.get(name, "").split(", ")
            warm = self._warm.get(known.identity, [])
            before = [details[row.id].signature.inputs.get(name, "") for row in warm]
            if not _fits(type_, theirs[name], dimensions, before):
                return False
        return True


def _moment(row: Compile) -> tuple[str, int]:
    """Equal for what one thread compiled in one interval."""
    return row.segments[0].thread, row.segments[0].interval


def _fits(one: str, other: str, open_: Sequence[str], warm: Sequence[str]) -> bool:
    """Whether an array's type differs from another's only in dimensions that are open, and would be again."""
    array, theirs = array_of(one), array_of(other)
    if array is None or theirs is None:
        return False
    sizes, others = array.dims.split(","), theirs.dims.split(",")
    array.dims = theirs.dims = ""
    if array != theirs or len(sizes) != len(others):
        return False
    for at, (size, wanted) in enumerate(zip(sizes, others, strict=True)):
        if size == wanted:
            continue
        earlier = [known.dims.split(",")[at : at + 1] for text in warm if (known := array_of(text)) is not None]
        if str(at) not in open_ or wanted in ("0", "1") or not any(was != [size] for was in earlier):
            return False
    return True


# --- findings -----------------------------------------------------------------------------------------------------


def after_ready(trace: Trace) -> list[Finding]:
    """One for each call that the warm-up lacks."""
    return [each for row in trace.readiness for each in findings_of(trace, row)]


def findings_of(trace: Trace, row: Readiness) -> list[Finding]:
    """Those of one `ready()`."""
    by_id = {compile_.id: compile_ for compile_ in trace.compiles}
    violations = {violation.compile: violation for violation in row.violations}
    rows = []
    for call in row.calls:
        first, *more = (violations[id_] for id_ in call.covers)
        compile_ = by_id[first.compile]
        where = in_step(trace.intervals[compile_.segments[0].interval])
        others = f", and {len(more)} more with it" if more else ""
        came = "loaded from a disk cache" if compile_.outcome == LOADED else "compiled"
        text = f"{compile_.function} was {came} after {row.name}{where} ({first.cause}): {first.differs}{others}"
        near = by_id.get(first.nearest or "")
        place = f", called at {near.caller.file}:{near.caller.line}" if near is not None and near.caller else ""
        evidence = [f"the nearest compile of the warm-up: {near.id}{place}"] if near is not None else []
        evidence += [f"{by_id[each.compile].function} ({each.cause}): {each.differs}" for each in more[:_MOST_CHANGES]]
        advice = f"Add to the warm-up: {call.code}" if call.code is not None else f"No call can be made up: {call.why}."
        about = About(cost_ns=call.delay_ns, evidence=evidence, advice=advice, refs=call.covers)
        rows.append(of_compile(trace, compile_, "after_ready", text, **about))
    return [*rows, *(_of_build(trace, row, build) for build in trace.builds if build.id in row.builds)]


def _of_build(trace: Trace, row: Readiness, build: Build) -> Finding:
    at = trace.intervals[build.interval]
    did = "was waited for, while another process built it," if build.state == "waited" else "was built"
    text = f"{build.name} {did} after {row.name}{in_step(at)}, by {build.tool}"
    advice = f"Build {build.name} in the warm-up, or before the program starts."
    about = About(cost_ns=build.wall_ns, refs=[build.id], advice=advice)
    return finding("after_ready", text, at=at, location=build.location, **about)


def loads_of(trace: Trace, row: Readiness) -> list[Finding]:
    """Loads from a disk's cache soon after one `ready()`: violations only where nothing may load."""
    wanted = set(row.loads) - {violation.compile for violation in row.violations}
    advice = "Call it in the warm-up with such arguments."
    rows = []
    for compile_ in (each for each in trace.compiles if each.id in wanted):
        where = in_step(trace.intervals[compile_.segments[0].interval])
        text = f"{compile_.function} was loaded from a cache after {row.name}{where}"
        rows.append(of_compile(trace, compile_, "after_ready", text, advice=advice))
    return rows
