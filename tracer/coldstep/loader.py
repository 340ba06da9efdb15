"""Reads a trace file into the rows of `coldstep.model`."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from coldstep.analysis import analyse
from coldstep.claims import DISPATCHES, known_claims, left_open
from coldstep.errors import TraceError, damaged
from coldstep.events import CUDA_GRAPH, NOTHING, UNKNOWN, Args
from coldstep.model import (
    UNATTRIBUTED,
    Cache,
    CollectorRow,
    Compile,
    CudaGraph,
    Details,
    Dropped,
    Failure,
    Finding,
    GraphBreak,
    Input,
    Interval,
    Location,
    Memory,
    MemoryPeak,
    Process,
    Profiled,
    Run,
    Segment,
    Signature,
    Trace,
    Variant,
    Wait,
)
from coldstep.pftrace import layout, proto
from coldstep.pftrace.layout import Track
from coldstep.pftrace.reader import EventRow, TrackRow, rows
from coldstep.processes import joined
from coldstep.signature import signature_of
from coldstep.stack_samples import Samples
from coldstep.variants import MADE, Candidate, Variants, counts_for_step_before, is_variant
from coldstep.vocabulary import OURS, of_trace

_IDS = ("compile", "parent", "of", "caused_by", "break")  # arguments that are the ids of a process's own rows
_MEMORY = ("argument_bytes", "output_bytes", "temp_bytes")
_MOST_REPORTED = 1_000  # findings of a process's collectors of others
_DEEPEST = 64  # compiles inside each other that a stretch of time counts for


def load(path: str | os.PathLike[str]) -> Trace:
    """The trace in the file at `path`, with everything that is derived from it; needs no framework.

    A file cut by a kill loads up to the cut. Raises TraceError (a ValueError whose message is one clear line) for
    a file that is missing, empty, foreign, or of a schema that is too old or too new.
    """
    return analyse(read(path))


def read(path: str | os.PathLike[str]) -> Trace:
    """Only what the file itself says; the derived rows are empty."""
    with damaged(path):
        return _read(Path(path))


def not_ours(path: str | os.PathLike[str], said: Sequence[str]) -> str:
    """Why nothing can be made of a file; `said` is what its reader had to say."""
    why = f" ({said[0]})" if said else ""
    return f"{path} is not a trace that coldstep wrote, or was cut before its first block: trace again.{why}".rstrip(
        "."
    )


def check_schema(path: str | os.PathLike[str], about: Args) -> None:
    """Raise TraceError unless what a trace says of its run is in a schema that is read here."""
    if (why := layout.unreadable(str(about.get("schema", "")))) is not None:
        raise TraceError(f"{path} {why}")


def _read(path: Path) -> Trace:
    """Everything below a root track is one process's; a merged file has several."""
    processes: list[_Rows] = []
    owners: dict[int, _Rows] = {}
    said: list[str] = []
    for row in rows(path, said):
        if isinstance(row, EventRow):
            if (owner := owners.get(row.track)) is not None:
                owner.event(row)
            continue
        if row.parent is None and layout.is_root(row.name):
            processes.append(_Rows(len(processes)))
            owners[row.uuid] = processes[-1]
        elif row.parent is not None and (parent := owners.get(row.parent)) is not None:
            owners[row.uuid] = parent
        if (owner := owners.get(row.uuid)) is not None:
            owner.track(row)
    if not any(process.begun for process in processes):
        raise TraceError(not_ours(path, said))
    trace = joined([process.trace(path) for process in processes if process.begun])
    trace.run.notes += said
    return trace


@dataclass(slots=True)
class _Slice:
    """A slice of some track, whole."""

    track: Track
    name: str
    category: str
    start: int
    end: int
    args: Args
    open: bool = True


@dataclass(slots=True)
class _StepRow:
    """A step: its slice, or, in a cut file, only the instant that said it began."""

    name: str
    n: int
    start: int
    end: int
    args: Args


@dataclass(slots=True)
class _Stretch:
    """A stretch of a thread's time in one phase, and the segments (ids of slices) that it lies in."""

    tid: int
    phase: str
    start: int
    end: int
    segments: list[int]


@dataclass(slots=True)
class _Profiled:
    """An open slice of a profiler's: what it counts as, since when, and how long others were inside it."""

    what: str | None
    start: int
    inner: int


@dataclass(slots=True)
class _CompileRows:
    """One compile's segments and all they said, in the order written."""

    slices: list[_Slice] = field(default_factory=list)
    args: Args = field(default_factory=dict)


class _Rows:
    """The file's content by kind, and the rows made of it."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._prefix = f"p{process}" if process else ""  # what the ids of a further process begin with
        self._tracks: dict[int, tuple[Track, Callable[[_Rows, Track, EventRow], None]]] = {}
        self._slices: list[_Slice] = []
        # where each stretch of the partition begins, whether it was written (a gap is unattributed), and its phase
        self._ledger: list[tuple[int, bool, str]] = []
        self._ledger_end: int | None = None
        self._steps: list[_StepRow] = []
        self._began: list[_StepRow] = []
        self._ended: dict[tuple[str, int], EventRow] = {}  # what was said of a step whose slice may not have come
        self._made: dict[str, None] = {}  # the compiles that are done, in the order in which they were
        self._breaks: list[EventRow] = []
        self._reported: list[EventRow] = []
        self._notes: list[str] = []
        self._states: dict[str, tuple[int, Args]] = {}
        self._run: Args = {}
        self._vocabulary = OURS
        self._start = 0
        self._end: int | None = None
        self._last = 0
        self._open: dict[int, list[_Slice]] = defaultdict(list)
        self._work: list[_Slice] = []
        self._samples = Samples()
        self._nameless: list[tuple[int, int, int]] = []  # unattributed stretches: interval, start, end
        self._counters: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._profiled: dict[int, list[_Profiled]] = defaultdict(list)
        self._inside: list[tuple[int, str, int]] = []
        self._device_traces: dict[tuple[int, str], Profiled] = {}
        self._unfinished: int | None = None
        self._code: dict[tuple[str, int], str] = {}
        self._identities: dict[str, str] = {}
        self._signatures: dict[str, Signature] = {}
        self._framework_ids: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._guards: dict[str, list[str]] = {}
        self._guarded: dict[str, dict[str, dict[str, str]]] = {}
        self._details: dict[str, Details] = {}
        self._libraries: dict[str, str] = {}
        self._below: dict[str, str] = {}
        self._ir: dict[str, dict[str, str]] = {}
        self._previous: dict[str, str] = {}

    @property
    def begun(self) -> bool:
        """Whether the file says what was run: without that nothing can be made of the rows."""
        return bool(self._run)

    def trace(self, path: Path) -> Trace:
        """All rows of this process that the file holds."""
        check_schema(path, self._run)
        self._root = os.path.join(str(self._run.get("root", "")), "")
        self._stop = self._end if self._end is not None else max(self._last, self._start)
        self._stretches = self._thread_stretches()
        intervals = self._intervals()
        self._starts = [interval.start_ns + self._start for interval in intervals]
        compiles = self._compiles(intervals)
        self._waits(intervals)
        self._sampled(intervals)
        # they may fall short, in a cut file
        if any(sum(row.phases.values()) + row.unattributed_ns > max(0, row.wall_ns) for row in intervals):
            self._notes.append("The times do not add up: the file was changed, or damaged, after it was written.")
        for start, what, ns in self._inside:
            inside = intervals[self._interval_at(start)].inside
            inside[what] = inside.get(what, 0) + ns
        run = self._run
        ended = str(run.get("ended", "killed"))
        dropped = run.get("dropped") or {}
        wall = self._stop - self._start
        return Trace(
            run=Run(
                command=[str(word) for word in run.get("command") or []],
                root=str(run.get("root", "")),
                started=str(run.get("started", "")),
                wall_ns=wall,
                ended=ended,
                error=run.get("error"),
                dropped=Dropped(int(dropped.get("ledger", 0)), int(dropped.get("bulk", 0))),
                notes=self._notes,
            ),
            processes=[
                Process(
                    index=self._process,
                    pid=int(run.get("pid", 0)),
                    host=str(run.get("host", "")),
                    rank=run.get("rank"),
                    start_ns=0,
                    wall_ns=wall,
                    before_trace_ns=int(run.get("before_trace_ns", 0)),
                    ended=ended,
                    versions={str(k): str(v) for k, v in (run.get("versions") or {}).items()},
                    own_before_trace_ns=min(int(run.get("own_before_trace_ns", 0)), int(run.get("before_trace_ns", 0))),
                )
            ],
            collectors=self._collectors(),
            intervals=intervals,
            compiles=compiles,
            graph_breaks=self._graph_breaks(intervals, compiles),
            memory=MemoryPeak(peak_rss_bytes=run.get("peak_rss_bytes")),
            origin_ns=self._start,
            unfinished=self._unfinished,
            identities=self._identities,
            signatures=self._signatures,
            framework_ids=self._framework_ids,
            errors=self._errors,
            guard_failures=self._guards,
            guarded=self._guarded,
            previous=self._previous,
            details=self._details,
            libraries=self._libraries,
            below=self._below,
            counters={
                (self._process, name): sorted((ns - self._start, value) for ns, value in points)
                for name, points in self._counters.items()
            },
            failures=self._failure(),
            cuda_graphs=self._cuda_graphs(),
            device_traces=self._device_traces,
            ir=self._ir,
            reported=list(self._findings(intervals, compiles)),
            vocabulary=self._vocabulary,
            code=self._code,
        )

    # --- reading ----------------------------------------------------------------------------------------------

    def _failure(self) -> dict[int, Failure]:
        run = self._run
        if not run.get("error"):
            return {}
        place = self._location(run.get("error_location"))
        return {self._process: Failure(str(run["error"]), place, bool(run.get("error_in_step")))}

    def track(self, row: TrackRow) -> None:
        """Take in what a track shows, before the events on it; what was found in the trace is found anew."""
        if (track := layout.parse(row.about, self._vocabulary.tracks)) and track.kind != "findings":
            self._tracks[row.uuid] = track, _TAKES.get(track.kind, _Rows._slice)

    def event(self, row: EventRow) -> None:
        """Take in one event, in the order of the file."""
        found = self._tracks.get(row.track)
        if found is None:
            return
        track, take = found
        if row.ns > self._last:
            self._last = row.ns
        if self._prefix:
            row.args |= {key: f"{self._prefix}{row.args[key]}" for key in _IDS if row.args.get(key) is not None}
        take(self, track, row)

    def _slice(self, track: Track, row: EventRow) -> None:
        if row.kind == proto.SLICE_BEGIN:
            opened = _Slice(track, row.name, row.category, row.ns, row.ns, row.args)
            self._open[row.track].append(opened)
            self._begin(opened)
        elif row.kind == proto.COUNTER:
            self._counters[track.thread].append((row.ns, float(row.args["value"])))
        elif row.kind == proto.INSTANT:
            self._instant(row)
        elif self._open[row.track]:
            closed = self._open[row.track].pop()
            closed.end, closed.open = row.ns, False
            closed.args |= row.args
            if closed.category == layout.TRACE:
                self._run, self._end = closed.args, row.ns
            elif closed.category == layout.STEP:
                name, n = layout.parse_step(closed.name)
                self._steps.append(_StepRow(name, n, closed.start, closed.end, closed.args))
            elif closed.category == layout.COMPILE and row.args.get("outcome") in MADE:
                self._made[str(closed.args.get("compile"))] = None

    def _stack(self, track: Track, row: EventRow) -> None:
        if row.kind == proto.SLICE_BEGIN:
            self._samples.begin(row.ns, track.tid, str(row.args.get("module", "")))
        else:
            self._samples.end(row.ns, track.tid)

    def _phase(self, _: Track, row: EventRow) -> None:
        if row.kind == proto.SLICE_BEGIN:
            if self._ledger_end is not None and row.ns > self._ledger_end:
                self._ledger.append((self._ledger_end, False, UNATTRIBUTED))
            self._ledger.append((row.ns, True, row.name))
        elif row.kind == proto.SLICE_END:
            self._ledger_end = row.ns

    def _profile(self, _: Track, row: EventRow) -> None:
        """What profilers saw, summed by what it is: of each slice the time in which no other is inside it."""
        stack = self._profiled[row.track]
        if row.kind == proto.SLICE_BEGIN:
            stack.append(_Profiled(layout.inside(row.category, row.name), row.ns, 0))
        elif row.kind == proto.SLICE_END and stack:
            closed = stack.pop()
            took = row.ns - closed.start
            if stack:
                stack[-1].inner += took
            if closed.what is not None:
                self._inside.append((closed.start, closed.what, took - closed.inner))

    def _keep_ir(self, _: Track, row: EventRow) -> None:
        """A program's text; one of several parts (forward, backward) goes below the one before."""
        forms = self._ir.setdefault(str(row.args["compile"]), {})
        text = "".join(row.args.get("text") or [])
        forms[row.name] = f"{forms[row.name]}\n{text}" if row.name in forms else text

    def _begin(self, opened: _Slice) -> None:
        if opened.category == layout.TRACE:
            self._run, self._start = opened.args, opened.start
            self._vocabulary = of_trace(opened.args.get("vocabulary"))
        elif opened.track.kind == "workers":
            self._work.append(opened)
        elif opened.track.kind != "steps":
            self._slices.append(opened)

    def _instant(self, row: EventRow) -> None:
        if row.name == layout.STEP_BEGAN:
            self._began.append(_StepRow(str(row.args["name"]), int(row.args["n"]), row.ns, row.ns, row.args))
        elif row.name == layout.STEP_ENDED:
            self._ended[str(row.args["name"]), int(row.args["n"])] = row
        elif row.category == layout.REPORTED:
            self._reported.append(row)
        elif row.name == layout.GRAPH_BREAK:
            self._breaks.append(row)
        elif row.name == layout.NOTE:
            self._notes.append(str(row.args.get("text", "")))
        elif row.name == layout.CLOCK:
            args = row.args
            numbers = (int(args[key]) for key in ("slices", "dropped", "clock_bound_ns"))
            self._device_traces[self._process, str(args["source"])] = Profiled(*numbers)
        elif row.name == layout.COLLECTOR:
            self._states[str(row.args.get("name"))] = (row.ns, row.args)

    # --- rows -------------------------------------------------------------------------------------------------

    def _intervals(self) -> list[Interval]:
        """Before, steps, between, after: without a gap from the trace's start to its end."""
        marked = [step for step in self._steps if not _is_inferred(step)]
        if marked or self._began:  # the program marks its steps: from when it began to, none were inferred
            self._steps = marked
        whole = {(step.name, step.n) for step in self._steps}
        cut = [step for step in self._began if (step.name, step.n) not in whole]
        unfinished = False
        for step in cut[-1:]:
            ended = self._ended.get((step.name, step.n))
            unfinished = ended is None
            step.end = ended.ns if ended is not None else self._stop
            step.args |= ended.args if ended is not None else {}
        steps = sorted([*self._steps, *cut], key=lambda step: step.start)
        intervals: list[Interval] = []
        at = self._start
        counted = not any(DISPATCHES in row.blind for row in self._collectors())
        for step in steps:
            self._interval(intervals, "between" if intervals else "before", at, step.start)
            interval = self._interval(intervals, "step", step.start, step.end)
            interval.step, interval.name = step.n, step.name
            interval.source = "inferred" if _is_inferred(step) else "marked"
            interval.measures = str(step.args.get("measures", "dispatch"))
            interval.python_dispatches = int(step.args.get("python_dispatches", 0)) if counted else None
            at = step.end
        if unfinished:
            self._unfinished = len(intervals) - 1
        else:
            self._interval(intervals, "after" if steps else "before", at, self._stop)
        self._fill_phases(intervals)
        return intervals

    def _interval(self, intervals: list[Interval], kind: str, start: int, end: int) -> Interval:
        """One more; what makes it a step is not filled in."""
        interval = Interval(
            index=len(intervals),
            process=self._process,
            kind=kind,
            step=None,
            name=None,
            source="marked",
            label=None,
            measures=None,
            start_ns=start - self._start,
            wall_ns=end - start,
        )
        intervals.append(interval)
        return interval

    def _fill_phases(self, intervals: list[Interval]) -> None:
        ledger = self._ledger
        if self._ledger_end is not None:
            ledger.append((self._ledger_end, False, UNATTRIBUTED))
        # what was held back while device traces were recorded stands behind the rest; a gap gives way to it
        ledger.sort(key=itemgetter(0, 1))
        ledger.append((self._stop, False, UNATTRIBUTED))
        ends = [_end(interval) + self._start for interval in intervals]
        ends[-1] = sys.maxsize  # what is behind the last one counts for it
        sampled = bool(self._samples)
        position = 0
        for (start, _, phase), (following, _, _) in pairwise(ledger):
            end = min(following, self._stop)
            while True:
                while start >= ends[position]:
                    position += 1
                interval = intervals[position]
                until = min(end, ends[position])  # only what a cut file lacks reaches over the end of an interval
                if phase != UNATTRIBUTED:
                    interval.phases[phase] = interval.phases.get(phase, 0) + until - start
                else:
                    interval.unattributed_ns += until - start
                    if sampled:
                        self._nameless.append((position, start, until))
                if until == end:
                    break
                start = until

    def _interval_at(self, ns: int) -> int:
        return max(0, bisect_right(self._starts, ns) - 1)

    def _compiles(self, intervals: list[Interval]) -> list[Compile]:
        found: dict[str, _CompileRows] = {}
        for piece in self._slices:
            if piece.category == layout.COMPILE:
                entry = found.setdefault(str(piece.args.get("compile")), _CompileRows())
                entry.slices.append(piece)
                entry.args |= piece.args
            elif (of := piece.args.get("of")) in found and "memory" in piece.args:
                found[of].args.setdefault("memory", piece.args["memory"])
        phases = self._segment_phases()
        compiles: list[Compile] = []
        names = _names(intervals)
        done: dict[str, Candidate] = {}
        for compile_id, entry in found.items():
            compile_ = self._compile(compile_id, entry, phases)
            compiles.append(compile_)
            at = compile_.segments[0].interval
            name = names[at]
            if counts_for_step_before(compile_.stack) and intervals[at].kind == "between":
                at -= 1
            intervals[at].compiles.append(compile_id)
            signature = self._signatures[compile_id] = signature_of(entry.args)
            self._details[compile_id] = self._details_of(compile_, entry.args, intervals)
            if guards := entry.args.get("guard_failures"):
                self._guards[compile_id] = [str(text) for text in guards]
            if guarded := entry.args.get("guarded"):
                self._guarded[compile_id] = {path: dict(found) for path, found in guarded.items()}
            if error := entry.args.get("error"):
                self._errors[compile_id] = str(error)
            if framework_id := entry.args.get("framework_id"):
                self._framework_ids[compile_id] = str(framework_id)
            identity = str(entry.args.get("identity", ""))
            self._identities[compile_id] = identity or compile_id
            if identity and is_variant(compile_):
                done[compile_id] = Candidate(compile_id, compile_.stack, name, signature)
        self._tie(compiles, done, {compile_id for compile_id in done if found[compile_id].args.get("earlier")})
        return compiles

    def _tie(self, compiles: list[Compile], done: dict[str, Candidate], earlier: set[str]) -> None:
        """Say of each recompile what it replaces; what a kill left open comes last."""
        by_id = {compile_.id: compile_ for compile_ in compiles}
        variants = Variants()
        for compile_id in [*(c for c in self._made if c in done), *(c for c in done if c not in self._made)]:
            identity = self._identities[compile_id]
            replaced = variants.add(identity, done[compile_id])
            by_id[compile_id].variant.n = len(variants.of(identity))
            if replaced is not None:
                self._previous[compile_id] = replaced.id
            if replaced is not None or compile_id in earlier:
                by_id[compile_id].reason = "recompile"

    def _cuda_graphs(self) -> list[CudaGraph]:
        return [
            CudaGraph(
                kind=str(piece.args[CUDA_GRAPH]),
                compile=piece.args.get("of"),
                part=str(piece.args.get("part", "forward")),
                interval=self._interval_at(piece.start),
                wall_ns=self._end_of(piece) - piece.start,
                sizes=[int(size) for size in piece.args.get("sizes") or []],
                reason=piece.args.get("reason"),
            )
            for piece in self._slices
            if CUDA_GRAPH in piece.args
        ]

    def _compile(self, compile_id: str, rows_: _CompileRows, phases: dict[int, dict[str, int]]) -> Compile:
        args = rows_.args
        segments = [
            Segment(
                part=str(piece.args.get("part", "forward")),
                interval=self._interval_at(piece.start),
                thread=piece.track.thread,
                start_ns=piece.start - self._start,
                wall_ns=self._end_of(piece) - piece.start,
                phases=phases.get(id(piece), {}),
            )
            for piece in rows_.slices
        ]
        limit = args.get("limit")
        unknown = {str(name) for name in args.get(UNKNOWN) or () if name not in args}
        return Compile(
            id=compile_id,
            process=self._process,
            stack=self._vocabulary.stack_of(rows_.slices[0].track.kind),
            function=str(args.get("function", rows_.slices[0].name)),
            origin=None if "origin" in unknown else str(args.get("origin", "user")),
            key=str(args.get("key", "")).replace(f":{self._root}", ":", 1),
            location=self._location(args.get("location")),
            caller=self._location(args.get("caller")),
            parent=args.get("parent"),
            caused_by=args.get("caused_by"),
            reason="first",
            variant=Variant(1, int(limit) if limit is not None else None),
            outcome=str(args.get("outcome", "in_progress")),
            wall_ns=_union([(s.start_ns, s.start_ns + s.wall_ns) for s in segments]),
            segments=segments,
            inputs=None
            if "inputs" in unknown
            else [Input(str(row["argument"]), str(row["type"])) for row in args.get("inputs") or []],
            caches=[
                Cache(str(row["layer"]), str(row["state"]), row.get("saved_ns")) for row in args.get("caches") or []
            ],
            fingerprint=args.get("fingerprint"),
            ir=self._graphs(compile_id, args.get("operations") or {}),
            memory=Memory(**{name: found.get(name) for name in _MEMORY}) if (found := args.get("memory")) else None,
        )

    def _graphs(self, compile_id: str, operations: Args) -> dict[str, dict[str, int]] | None:
        """What is known of a compile's graph in each form: the lines of its text, where that was kept; operations."""
        found = {form: {"lines": text.count("\n") + 1} for form, text in self._ir.get(compile_id, {}).items()}
        for form, number in operations.items():
            found.setdefault(str(form), {})["operations"] = int(number)
        return found or None

    def _details_of(self, compile_: Compile, args: Args, intervals: list[Interval]) -> Details:
        failure, dynamic, room = args.get("failure"), args.get("dynamic"), args.get("room")
        if dynamic == NOTHING:
            dynamic = {}
        return Details(
            given_up=args.get("given_up"),
            dynamic={str(name): str(open_) for name, open_ in dynamic.items()} if dynamic is not None else None,
            entry=bool(args.get("entry")),
            fullgraph=args.get("fullgraph"),
            room=int(room) if room is not None else None,
            fed_back=[str(name) for name in args.get("fed_back") or []],
            effects=[str(name) for name in args.get("effects") or []],
            failure=self._break(compile_.id, failure, compile_, compile_.segments[0].interval, intervals)
            if failure
            else None,
        )

    def _segment_phases(self) -> dict[int, dict[str, int]]:
        """Per segment (the id of its slice): the time of each innermost phase of its thread, nested compiles' too."""
        phases: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for stretch in self._stretches:
            for segment in stretch.segments:
                phases[segment][stretch.phase] += stretch.end - stretch.start
        return {segment: dict(shares) for segment, shares in phases.items()}

    def _waits(self, intervals: list[Interval]) -> None:
        """What other threads worked on meanwhile, by phase."""
        owners = self._owners(intervals)
        work: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        threads = set(owners)
        for stretch in self._stretches:
            if threads == {stretch.tid}:  # no other thread's time
                continue
            start, index = stretch.start, self._interval_at(stretch.start)
            while start < stretch.end:
                last = index == len(intervals) - 1
                until = stretch.end if last else min(stretch.end, _end(intervals[index]) + self._start)
                if owners[index] != stretch.tid:
                    work[index][stretch.phase] += until - start
                start, index = until, index + 1
        pid = int(self._run.get("pid", 0))
        for index, phases in work.items():
            intervals[index].waits = [Wait(phase, pid, ns) for phase, ns in sorted(phases.items())]
        for piece in self._work:
            start, index = piece.start, self._interval_at(piece.start)
            while piece.category and start < piece.end and index < len(intervals):
                until = min(piece.end, _end(intervals[index]) + self._start)
                if until > start:
                    intervals[index].waits.append(Wait(piece.category, int(piece.args.get("pid", 0)), until - start))
                start, index = max(start, until), index + 1

    def _owners(self, intervals: list[Interval]) -> list[int]:
        """The thread of each interval."""
        home = int(self._run.get("tid", 0))
        owners = [home] * len(intervals)
        for step in [*self._steps, *self._began]:
            owners[self._interval_at(step.start)] = int(step.args.get("tid", home))
        return owners

    def _sampled(self, intervals: list[Interval]) -> None:
        """What each interval's thread was seen to do while no phase was open on it."""
        if not self._samples:
            return
        owners = self._owners(intervals)
        for index, start, end in self._nameless:
            sampled = intervals[index].sampled
            for what, ns in self._samples.inside(owners[index], start, end).items():
                sampled[what] = sampled.get(what, 0) + ns

    def _thread_stretches(self) -> list[_Stretch]:
        """Each thread's time in phases, innermost phase first come."""
        threads: dict[int, list[_Slice]] = defaultdict(list)
        for piece in self._slices:
            threads[piece.track.tid].append(piece)
        stretches: list[_Stretch] = []
        for tid, pieces in threads.items():
            at = self._start
            # of each open slice: when it ends, and the phase and the segments that time inside it is in
            open_: list[tuple[int, str | None, list[int]]] = [(sys.maxsize, None, [])]
            for piece in sorted(pieces, key=lambda piece: (piece.start, -self._end_of(piece))):
                while (end := open_[-1][0]) <= piece.start:
                    at = _stretch(stretches, tid, open_.pop(), at, end)
                at = _stretch(stretches, tid, open_[-1], at, piece.start)
                _, phase, segments = open_[-1]
                if piece.category == layout.COMPILE:
                    segments = [*segments[-_DEEPEST:], id(piece)]
                elif _is_phase(piece):
                    phase = piece.category
                open_.append((self._end_of(piece), phase, segments))
            for innermost in open_[:0:-1]:
                at = _stretch(stretches, tid, innermost, at, innermost[0])
        return stretches

    def _graph_breaks(self, intervals: list[Interval], compiles: list[Compile]) -> list[GraphBreak]:
        """One row per compiled identity, user line and kind."""
        by_id = {compile_.id: compile_ for compile_ in compiles}
        caused = defaultdict(list)
        for compile_ in compiles:
            if compile_.caused_by:
                caused[compile_.caused_by].append(compile_)
        found: dict[tuple[object, ...], GraphBreak] = {}
        followers: dict[str, list[Compile]] = defaultdict(list)
        for row in self._breaks:
            args = row.args
            location = self._location(args.get("location"))
            broken = by_id.get(str(args.get("compile")))
            line = (location.file, location.line) if location else None
            key = (broken.key if broken else None, line, args.get("kind"))
            entry = found.get(key)
            if entry is None:
                break_id = f"{self._prefix}b{len(found)}"
                entry = found[key] = self._break(break_id, args, broken, self._interval_at(row.ns), intervals)
            entry.count += 1
            for follower in caused.pop(str(args.get("break")), []):
                follower.caused_by = entry.id
                entry.compiles.append(follower.id)
                followers[entry.id].append(follower)
        for entry in found.values():
            spans = [(s.start_ns, s.start_ns + s.wall_ns) for c in followers[entry.id] for s in c.segments]
            entry.cost_ns = _union(spans)
        return list(found.values())

    def _findings(self, intervals: list[Interval], compiles: list[Compile]) -> Iterator[Finding]:
        """What collectors of others found, of the kinds that they declared."""
        by_id = {compile_.id: compile_ for compile_ in compiles}
        for row in self._reported[:_MOST_REPORTED]:
            if row.name in OURS.findings or row.name not in self._vocabulary.findings:
                continue
            about = by_id.get(str(row.args.get("compile")))
            interval = self._interval_at(row.ns)
            severity = str(row.args.get("severity"))
            yield Finding(
                id="",
                process=self._process,
                kind=row.name,
                severity=severity if severity in ("error", "warning") else "note",
                interval=interval,
                step=intervals[interval].step,
                cost_ns=0,
                location=(about.caller or about.location) if about else None,
                text=str(row.args.get("text", "")),
                evidence=[str(text) for text in row.args.get("evidence") or []],
                advice=str(row.args.get("advice") or ""),
                refs=[about.id] if about else [],
            )

    def _break(
        self, id_: str, args: Args, broken: Compile | None, interval: int, intervals: list[Interval]
    ) -> GraphBreak:
        """A graph break as its arguments tell it, not counted yet."""
        if library := args.get("library"):
            self._libraries[id_] = str(library)
        if isinstance(below := args.get("below"), dict):
            code = f": {below['code']}" if below.get("code") else ""
            function = f" in {below['function']}" if below.get("function") else ""
            self._below[id_] = f"{below.get('module')}:{below.get('line')}{function}{code}"
        return GraphBreak(
            id=id_,
            process=self._process,
            kind=str(args.get("kind", "other")),
            reason=str(args.get("reason", "")),
            function=str(args.get("function", "")),
            location=self._location(args.get("location")),
            stack=[place for item in args.get("stack") or [] if (place := self._location(item))],
            compile=broken.id if broken else None,
            interval=interval,
            step=intervals[interval].step,
            count=0,
            compiles=[],
            cost_ns=0,
            hints=[str(hint) for hint in args.get("hints") or []],
            advice="",
        )

    def _collectors(self) -> list[CollectorRow]:
        collectors = []
        announced = self._run.get("collectors", [])
        for name in [*announced, *(n for n in self._states if n not in announced)]:
            ns, args = self._states.get(name, (None, {}))
            state = str(args.get("state", "absent"))
            missing = [str(text) for text in args.get("missing") or []]
            # a file from before this was said: the words alone do not tell what they hide
            blind = known_claims(args["blind"]) if "blind" in args else left_open(str(name), state, missing)
            collectors.append(
                CollectorRow(
                    process=self._process,
                    name=str(name),
                    state=state,
                    since_ns=ns - self._start if ns is not None and state not in ("absent", "failed") else None,
                    version=args.get("version"),
                    missing=missing,
                    blind=blind,
                )
            )
        return collectors

    def _location(self, place: Any) -> Location | None:
        if not isinstance(place, dict) or "file" not in place:
            return None
        file = str(place["file"]).removeprefix(self._root)
        location = Location(file, int(place.get("line", 0)), str(place.get("function", "")))
        if code := place.get("code"):
            self._code[location.file, location.line] = str(code)
        return location

    def _end_of(self, piece: _Slice) -> int:
        return self._stop if piece.open else piece.end


_TAKES: dict[str, Callable[[_Rows, Track, EventRow], None]] = {
    "phases": _Rows._phase,
    "stacks": _Rows._stack,
    "ir": _Rows._keep_ir,
    **dict.fromkeys(layout.PROFILED, _Rows._profile),
}
"""By kind of track, what takes in its events, where they are not slices, instants and counters."""


def _names(intervals: list[Interval]) -> list[str | None]:
    """Of each interval the name of the last step that was marked, itself included."""
    names: list[str | None] = []
    for interval in intervals:
        is_marked = interval.kind == "step" and interval.source == "marked"
        names.append(interval.name if is_marked else names[-1] if names else None)
    return names


def _is_inferred(step: _StepRow) -> bool:
    return step.args.get("source") == "inferred"


def _end(interval: Interval) -> int:
    return interval.start_ns + interval.wall_ns


def _is_phase(piece: _Slice) -> bool:
    return bool(piece.category) and piece.category not in (layout.COMPILE, layout.STEP, layout.TRACE)


def _stretch(
    stretches: list[_Stretch], tid: int, innermost: tuple[int, str | None, list[int]], at: int, until: int
) -> int:
    """Add the time from `at` to `until`, if it has a phase; where it ends."""
    _, phase, segments = innermost
    if phase is not None and until > at:
        stretches.append(_Stretch(tid, phase, at, until, segments))
    return max(at, until)


def _union(spans: list[tuple[int, int]]) -> int:
    """The length of the union of the spans."""
    total = at = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, at))
        at = max(at, end)
    return total
