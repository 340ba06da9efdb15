"""Where a run's time went until it settled: its intervals summed into the few stretches that a reader can hold in mind.

Every stretch keeps the ledger's promise: its rows add up to its wall time. Of a log's they need not: it shows
only compiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from coldstep._util.figures import count, duration, listed, numbers, percent, size
from coldstep._util.gathered import added_up, gathered
from coldstep.job.waits import IDLE, summed
from coldstep.model import UNATTRIBUTED, Compile, Interval, Segment, Trace, Transfer, Waiting
from coldstep.pftrace.layout import FROM_LOG
from coldstep.recording.device_tracks import EXECUTE
from coldstep.rows.intervals import Alike, Part, Steps, before, end_ns, kinds, parts, phases_of, unit
from coldstep.rows.processes import name as name_of
from coldstep.rows.spans import covered
from coldstep.vocabulary import EAGER, IMPORTS, OURS, TRANSFERS, Vocabulary
from coldstep_viewers.safe_text import short

SMALLER = "smaller phases"
_SMALL_MEANWHILE, _MOST_MEANWHILE = 20, 3  # of a wait: what another process did in so small a part of it is not named


@dataclass(slots=True)
class Row:
    """A line of a stretch: the phase `name`, or all the small ones; `note` gives its content, or what to do."""

    name: str
    label: str
    ns: int
    note: str = ""


@dataclass(slots=True)
class Stretch:
    """Intervals that follow each other, as one: `shares` maps phases, and "unattributed", to nanoseconds."""

    title: str
    wall_ns: int
    shares: dict[str, int]
    imports: dict[str, int] = field(default_factory=dict)
    """Of `shares["imports"]`: how much each package took."""
    eager_count: int = 0
    """How many small programs of eager operations `shares["eager programs"]` stands for."""
    eager: dict[str, int] = field(default_factory=dict)
    """By the line that ran them: how much these took."""
    rest: set[str] = field(default_factory=set)
    """The phases that these are a part of, too: what stands there is the rest."""
    compiles: list[tuple[Compile, int]] = field(default_factory=list)
    """What else was compiled, but for what began inside of another's compile, and the nanoseconds of it in here."""
    sampled: dict[str, int] = field(default_factory=dict)
    """Of the unattributed time: the observed work of the thread."""
    read: dict[str, int] = field(default_factory=dict)
    """Of the lines in it: the bytes read from disk meanwhile, where weights had been mapped before."""
    waits: list[str] = field(default_factory=list)
    """Of the same: what the thread waited for, in words, the longest first."""
    workers: dict[str, int] = field(default_factory=dict)
    """By phase, how long other processes worked for it, all together."""
    transfers: list[Transfer] = field(default_factory=list)
    """Weights, checkpoints and downloads in it."""
    stepped: bool = True
    """Whether the process has steps."""
    initial: bool = False
    """Whether this is the time before the first step."""
    vocabulary: Vocabulary = OURS

    def _note(self, name: str, ns: int, most: int) -> str:
        """Whose imports they are; how long other processes worked; what a sampler saw where no phase was open."""
        if name == IMPORTS:
            return _largest({name.removeprefix("import."): ns for name, ns in self.imports.items()}, most)
        if name in TRANSFERS:
            return _files([row for row in self.transfers if row.phase == name], most)
        if name == UNATTRIBUTED:
            largest = sorted(self.sampled.items(), key=lambda row: -row[1])[:3]
            named = {what: percent(of / ns) for what, of in largest if of * 100 >= ns}
            lines = ", ".join(f"{share} {what}{_first_touch(self.read.get(what, 0))}" for what, share in named.items())
            return "; ".join(filter(None, (*self.waits[: most + 1], lines)))
        return f"other processes worked on it for {duration(self.workers[name])}" if name in self.workers else ""

    def _eager_note(self, most: int) -> str:
        """What to do about eager programs at the beginning; afterwards, which lines run them."""
        if self.initial:
            return "wrap the initialisation in one jax.jit" if self.eager_count > 1 else ""
        return _largest(self.eager, most)

    def _compiles_note(self) -> str:
        """How many programs were compiled, and the longest; which it is, where it is one and there is no step."""
        if len(self.compiles) < 2:
            return "".join(short(row.function) for row, _ in self.compiles if not self.stepped)
        number, (longest, ns) = count(len(self.compiles), "compile"), max(self.compiles, key=lambda each: each[1])
        if len({row.key for row, _ in self.compiles}) == 1:
            return f"{number} of {short(longest.function)}"
        return f"{number}, the longest {short(longest.function)}, {duration(ns)}"

    def _compiled_in(self, phase: str) -> bool:
        return any(phase in segment.phases for row, _ in self.compiles for segment in row.segments)

    def _least(self) -> int:
        """How long a phase is at least that is not among the shortest, which together are below five per cent."""
        together = 0
        for ns in sorted(ns for name, ns in self.shares.items() if name != UNATTRIBUTED):
            together += ns
            if together * 20 >= self.wall_ns:
                return ns
        return self.wall_ns

    def in_words(self) -> str:
        """The largest, and the unattributed time, in a line: "XLA compilation 78 %, unattributed 4 %"."""
        largest = next(self.rows(folded=True), None)
        named = [(largest.label, largest.ns)] if largest is not None and largest.name != UNATTRIBUTED else []
        if (nameless := self.shares.get(UNATTRIBUTED)) is not None:
            named.append((self.vocabulary.phase(UNATTRIBUTED), nameless))
        return ", ".join(f"{label} {percent(ns / self.wall_ns)}" for label, ns in named)

    def largest_first(self) -> list[tuple[str, int]]:
        """The phases from the largest down; the unattributed time comes last, whatever its size."""
        return sorted(self.shares.items(), key=lambda row: (row[0] == UNATTRIBUTED, -row[1]))

    def rows(self, folded: bool = False) -> Iterator[Row]:
        """The phases in words, the largest first; those below one per cent share a row, `folded` the smallest up to
        five per cent together. They add up to `wall_ns`."""
        least, most = (self._least(), 1) if folded else (self.wall_ns / 100, 3)
        small = [ns for name, ns in self.shares.items() if ns < least and name != UNATTRIBUTED]
        is_noted = False
        for name, ns in self.largest_first():
            if name == UNATTRIBUTED and small:
                yield _smaller(small)
                small = []
            if name == EAGER and ns >= least:
                yield Row(name, count(self.eager_count, "eager program"), ns, self._eager_note(most))
            elif name == UNATTRIBUTED or ns >= least:
                note = self._note(name, ns, most)
                if not is_noted and name not in (EXECUTE, "coldstep") and self._compiled_in(name):
                    note, is_noted = "; ".join(filter(None, (self._compiles_note(), note))), True
                yield Row(name, f"{self.vocabulary.phase(name)}{', the rest' if name in self.rest else ''}", ns, note)
        if small:
            yield _smaller(small)


def until_settled(trace: Trace, process: int) -> tuple[bool, list[Stretch]]:
    """The stretches from `trace()`'s entry until every kind of step had settled, and whether all of them did.

    Where one of them did not settle, the stretches go on to the end of the run.
    """
    intervals = [part for part in parts(trace.intervals) if part.process == process]
    settled = _settled_at(trace, process)
    if settled is not None:
        intervals = before(intervals, settled.index)
    groups = groupby(intervals, lambda row: row.index if _alone(row) else None)
    stretches = [_stretch(trace, [*group]) for _, group in groups]
    if from_log(trace):
        for stretch in stretches:
            stretch.shares.pop(UNATTRIBUTED, None)
        stretches = [stretch for stretch in stretches if stretch.shares]
    return settled is not None, stretches


def rest_of_run(trace: Trace, process: int, folded: bool = False) -> str | None:
    """What a process did when every kind of step had settled, in a line: how long, in steps and beside them, and what
    compiled; None where not all of them settled. `folded`, a short gap between the steps is not named."""
    settled = _settled_at(trace, process)
    if settled is None or from_log(trace):
        return None
    row = trace.processes[process]
    whole = row.start_ns + row.wall_ns - settled.start_ns
    walls = [steps.walls() for steps in _later_steps(trace, settled)]
    parts = [f"{count(sum(map(len, walls)), 'step')} {duration(stepped := sum(map(sum, walls)))}"]
    if (beside := whole - stepped) > 0:
        gap, where = max(_gaps(trace, settled), key=lambda row: row[0], default=(0, ""))
        least = (row.before_trace_ns + row.wall_ns) / 20 if folded else whole / 100
        longest = f", the longest {duration(gap)} {where}" if gap and gap >= least else ""
        parts.append(f"{duration(beside)} between and after them{longest}")
    return f"Then {duration(whole)} to the end of the run: {'; '.join([*parts, *_compiled_later(trace, settled)])}."


def _later_steps(trace: Trace, settled: Interval) -> Iterator[Steps]:
    """Of each kind the steps from there on."""
    for (of, _), steps in kinds(trace.intervals).items():
        if of == settled.process:
            earlier = before(steps.parts, settled.index)  # of alike ones perhaps the gap in front of that step, too
            passed = sum(part.steps if isinstance(part, Alike) else part.kind == "step" for part in earlier)
            yield steps.part(passed, len(steps))


def _gaps(trace: Trace, settled: Interval) -> Iterator[tuple[int, str]]:
    """What lies between and after the steps from there on: how long it is, and where."""
    for part in parts(trace.intervals):
        if part.process != settled.process or end_ns(part) <= settled.start_ns:
            continue
        if isinstance(part, Alike):
            passed = max(0, (settled.index - part.index) // 2 + 1)
            if passed >= part.steps:
                continue
            part = part.part(passed, part.steps)
            gaps = part.gaps()
            at = gaps.index(gap := max(gaps))
            yield gap, f"before {_numbered(part.name, [part.step + at], unit(part) == 'call')}"
        elif part.kind == "after":
            yield part.wall_ns, "after the last step"
        elif part.kind == "between" and part.index > settled.index:
            yield part.wall_ns, _before_what(trace, part)


def _before_what(trace: Trace, gap: Interval) -> str:
    following = trace.intervals[gap.index + 1] if gap.index + 1 < len(trace.intervals) else None
    if following is None or following.kind != "step" or following.process != gap.process:
        return "after the last step"
    return f"before {_numbered(following.name or 'step', [following.step or 0], unit(following) == 'call')}"


def _compiled_later(trace: Trace, settled: Interval) -> Iterator[str]:
    rows = [
        (row.wall_ns, row)
        for row in trace.compiles
        if row.process == settled.process and row.parent is None and row.outcome != "traced_only"
        and row.segments[0].interval >= settled.index
    ]  # fmt: skip
    if rows:
        ns, longest = max(rows, key=lambda each: each[0])
        more = f", the longest {short(longest.function)}, {duration(ns)}" if len(rows) > 1 else ""
        whose = f" of {short(longest.function)}" if len(rows) == 1 else ""
        spent = duration(sum(ns for ns, _ in rows))
        yield f"{count(len(rows), 'compile')}{whose} there, {spent}{more}"


def _settled_at(trace: Trace, process: int) -> Interval | None:
    """The step with which the last kind of step had settled; None where one of them did not."""
    verdicts = [row for row in trace.settling if row.process == process and row.by == "step"]
    begun = trace.unfinished is None or trace.intervals[trace.unfinished].name in {row.name for row in verdicts}
    if not verdicts or not begun or any(row.settled_at_step is None for row in verdicts):
        return None
    steps = kinds(trace.intervals)
    intervals = (steps[process, row.name].numbered(row.settled_at_step or 0) for row in verdicts)
    return max((row for row in intervals if row is not None), key=lambda row: row.index)


def _alone(part: Part) -> bool:
    """Whether that interval is a stretch of its own: the time before the first step, and each first step."""
    return _is_before(part) or (isinstance(part, Interval) and part.step == 0)


def _is_before(part: Part) -> bool:
    return isinstance(part, Interval) and part.kind == "before"


def before_the_trace(trace: Trace, process: int) -> tuple[str, int]:
    """What the time from a process's start to the trace's is, and how much of it is coldstep's, where that matters."""
    row, command = trace.processes[process], trace.run.command
    if command[:2] == ["coldstep", "run"] and row.how in (None, "root"):  # a process below imports until it is watched
        what = "Python starting"
    elif any("ipykernel" in word for word in command):
        what = "the notebook, up to this trace"
    else:
        what = "Python, imports, your code"
    own = row.own_before_trace_ns
    return what, own if own * 100 >= row.before_trace_ns else 0


def from_log(trace: Trace) -> bool:
    """Whether the trace was made of logs: nothing in it is of what happened before, between and beside compiles."""
    return sum(FROM_LOG in note for note in trace.run.notes) == len(trace.processes)


def total(intervals: Iterable[Part], *, between: bool = False) -> dict[str, int]:
    """The phases of `intervals`, and the unattributed time, summed; phases of no length are left out. Of steps that are
    alike those of what lies `between` them, too, if that is asked for."""
    return {name: ns for name, ns in phases_of(intervals, between=between).items() if ns}


def _smaller(small: list[int]) -> Row:
    return Row(SMALLER, count(len(small), "smaller phase"), sum(small))


def _largest(named: dict[str, int], most: int) -> str:
    """Those that took `most`, and how much the others did: "jax 4.1 s, numpy 1.2 s, 10 more 2.6 s"."""
    largest = sorted(named.items(), key=lambda row: -row[1])
    parts = [f"{name} {duration(ns)}" for name, ns in largest[:most]]
    if len(largest) > most:
        parts.append(f"{len(largest) - most} more {duration(sum(ns for _, ns in largest[most:]))}")
    return ", ".join(parts)


def _stretch(trace: Trace, group: list[Part]) -> Stretch:
    shares = Counter(total(group, between=True))
    own = trace.processes[group[0].process].pid
    stepped = any(process == group[0].process for process, _ in kinds(trace.intervals))
    imports = {name: shares.pop(name) for name in list(shares) if name.startswith("import.")}
    if imports:
        shares[IMPORTS] = sum(imports.values())
    rows = [row for row in group if isinstance(row, Interval)]
    indices = {row.index for row in rows}
    roots = (row for row in trace.compiles if row.parent is None and row.process == group[0].process)
    placed = ((row, [segment for segment in row.segments if segment.interval in indices]) for row in roots)
    outermost = [(row, inside) for row, inside in placed if inside and row.outcome != "traced_only"]
    eager = [(row, inside) for row, inside in outermost if row.origin == "eager"]
    rest: set[str] = set()
    for name, ns in (item for _, inside in eager for segment in inside for item in segment.phases.items()):
        # a compile's segment may reach over its interval's end, or lie on another thread: never take out more
        # than there is, so that the rows still add up
        moved = min(ns, shares[name])
        shares[name] -= moved
        shares[EAGER] += moved
        rest |= {name} if moved and "." in name else set()  # a stack's own phase
    compiles = [(row, covered(map(_span, inside))) for row, inside in outermost if row.origin != "eager"]
    return Stretch(
        title=_title(group) if stepped else "the run",
        wall_ns=sum(end_ns(part) - part.start_ns for part in group),
        shares={name: ns for name, ns in shares.items() if ns},
        imports=imports,
        eager_count=len(eager),
        eager=_by_line(eager),
        rest=rest,
        compiles=compiles,
        sampled=added_up(row.sampled for row in rows),
        read=added_up(row.read_bytes for row in rows),
        waits=list(waited(trace, [each for row in rows for each in row.waiting])),
        workers=added_up({wait.phase: wait.worker_ns} for row in rows for wait in row.waits if wait.pid != own),
        transfers=[row for row in trace.transfers if row.interval in indices],
        stepped=stepped,
        initial=stepped and _is_before(group[0]),
        vocabulary=trace.vocabulary,
    )


def waited(trace: Trace, rows: Iterable[Waiting]) -> Iterator[str]:
    """What a thread waited for: "waited for EngineCore 41 s, of which Dynamo tracing 22 s, imports 14 s"."""
    waits = gathered(((row.process, row.how, row.where, row.pid, row.working), row) for row in summed(rows))
    for each in sorted(waits.values(), key=lambda each: -sum(row.ns for row in each)):
        ns = sum(row.ns for row in each)
        named = [row for row in each if row.meanwhile and row.ns * _SMALL_MEANWHILE >= ns][:_MOST_MEANWHILE]
        phases = listed(f"{trace.vocabulary.phase(row.meanwhile or '')} {duration(row.ns)}" for row in named)
        yield _wait(trace, each[0], duration(ns), phases)


def _wait(trace: Trace, row: Waiting, took: str, phases: str) -> str:
    who = name_of(trace, row.process) if row.process is not None else short(row.command or "")
    if row.process is None and row.pid is not None:
        who = f"{who} (process {row.pid})" if who else f"process {row.pid}"
    if row.how == "wait4":
        return f"waited for {who or 'a child process'} {took}{phases and f', of which {phases}'}"
    worked = f"{who if row.working == 1 else f'{row.working} processes'} worked{phases and f' ({phases})'}"
    if row.how == "sleep" or row.where in IDLE:
        did = "slept" if row.how == "sleep" else f"idle in {row.where}"
        return f"{did} {took}, meanwhile {worked}" if row.working else f"{did} {took}"
    return f"waited in {short(row.where)} {took}{f' while {worked}' if row.working else ''}"


def _first_touch(read: int) -> str:
    """Of a line, after the load of mapped weights: what it had read."""
    return f" ({size(read)} read from disk; weights were mapped before)" if read else ""


def _read_later(row: Transfer) -> str:
    read = f"{size(row.read_later_bytes)} read from disk" if row.read_later_bytes else ""
    if row.mapped:
        return f" (mapped, read later{read and f': {read} since'})"
    return read and f" ({read})"


def _files(rows: list[Transfer], most: int) -> str:
    """The largest, by name and size: "model.pt 800 MiB (mapped, read later), 3 more"."""
    rows.sort(key=lambda row: -row.wall_ns)
    sizes = [(row, f" {size(row.bytes)}" if row.bytes is not None else "") for row in rows if row.name]
    return listed([f"{short(row.name)}{of}{_read_later(row)}" for row, of in sizes], most) if sizes else ""


def _by_line(rows: Iterable[tuple[Compile, list[Segment]]]) -> Counter[str]:
    places = ((row.caller, sum(sum(segment.phases.values()) for segment in inside)) for row, inside in rows)
    return added_up({f"{at.file}:{at.line}" if at is not None else "elsewhere": ns} for at, ns in places)


def _span(segment: Segment) -> tuple[int, int]:
    return segment.start_ns, segment.start_ns + segment.wall_ns


def _numbered(name: str, steps: list[int], are_calls: bool) -> str:
    """ "train steps 1-4", "calls 1-4 of loss" """
    number = f"{'' if len(steps) == 1 else 's'} {numbers(steps)}"
    if are_calls:
        return f"call{number}{short(name.removeprefix('call'))}"
    return f"{short(name)} step{number}" if name != "step" else f"step{number}"


def _title(group: list[Part]) -> str:
    first, last = group[0], group[-1]
    if _is_before(first):
        return "before the first step"
    names: dict[str, list[int]] = {}
    for row in group:
        if row.name is not None:
            steps = range(row.step, row.step + row.steps) if isinstance(row, Alike) else (row.step or 0,)
            names.setdefault(row.name or "step", []).extend(steps)
    if not names:
        return "after the last step" if isinstance(last, Interval) and last.kind == "after" else "between steps"
    calls = {row.name for row in group if row.name is not None and unit(row) == "call"}
    titles = [_numbered(name, steps, name in calls) for name, steps in names.items()]
    if len(titles) > 3:
        titles = [*titles[:2], count(len(titles) - 2, "more kind of step", "more kinds of steps")]
    if len(group) == 1 and isinstance(first, Interval):
        return titles[0]
    return f"{', '.join(titles)} and between"
