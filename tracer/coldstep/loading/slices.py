"""Takes in the events of one process, in the order of its file, and keeps them by kind."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from itertools import compress
from math import isfinite
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.candidates import read
from coldstep.events import Args
from coldstep.loading.folding import Folding, Ledger, is_inferred
from coldstep.loading.row_types import Slice, StepRow
from coldstep.model import UNATTRIBUTED, Interval, Location, Profiled
from coldstep.pftrace import layout, proto
from coldstep.pftrace.layout import Track
from coldstep.pftrace.records import EventRow, TrackRow
from coldstep.pftrace.repeats import Repeats
from coldstep.rows.intervals import Alike
from coldstep.rows.spans import Spans
from coldstep.rows.variants import MADE
from coldstep.run_row import run_row
from coldstep.vocabulary import OURS, of_trace

_IDS = ("compile", "parent", "of", "caused_by", "break")  # arguments that are the ids of a process's own rows


@slotted
class _ProfilerSlice:
    """An open slice that a profiler recorded: what it counts as, since when, and how long others were inside it."""

    what: str | None
    start: int
    inner: int


class Rows:
    """The parts of a file on one process; whole once it is closed. All times are the monotonic clock's."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.prefix = f"p{process}" if process else ""
        """What the ids of a further process begin with."""
        self.args: Args = {}
        """What is said of the run, as it stands in the file."""
        self.run = run_row({})
        """The same, read, once it is known to be in a schema that can be."""
        self.vocabulary = OURS
        self.start = 0
        """The entry of `trace()`."""
        self.stop = 0
        """Its end; of a cut file the last time in it."""
        self.slices: list[Slice] = []
        """The compiles and phases of all threads."""
        self.work: list[Slice] = []
        """The work of other processes."""
        self.ledger: Ledger = []
        """Where each stretch of the partition begins, whether it was written (a gap is unattributed), and its phase."""
        self.ledger_end: int | None = None
        self.steps: list[StepRow] = []
        self.began: list[StepRow] = []
        """The steps that were said to begin, whether or not their slices came."""
        self.ended: dict[tuple[str, int], EventRow] = {}
        """What was said of a step (by name and ordinal) whose slice may not have come."""
        self.made: dict[str, None] = {}
        """The compiles that are done, in the order in which they were."""
        self.candidates: dict[str, Args] = {}
        """What may be a step (by id), as it was last said; its calls, by begin and end, are `calls`."""
        self.breaks: list[EventRow] = []
        self.ready: list[EventRow] = []
        """When the program said that all was warmed up."""
        self.reported: list[EventRow] = []
        """What collectors of others found themselves."""
        self.lines: list[Args] = []
        """The user's lines that were sampled until the first step had ended."""
        self.waits: list[Slice] = []
        """What the trace's own thread was seen to wait for."""
        self.nameless: list[tuple[Interval, int, int]] = []
        """Where anybody has looked at that, once the time is known: the stretches in which that thread had no phase, by
        interval, begin and end."""
        self.notes: list[str] = []
        self.states: dict[str, tuple[int, Args]] = {}
        """The last that each collector said of itself, and when."""
        self.samples = Samples()
        self.counters: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.inside: list[tuple[int, str, int]] = []
        """What profilers saw: when it began, what it counts as, how long it took itself."""
        self.device_traces: dict[tuple[int, str], Profiled] = {}
        self.ir: dict[str, dict[str, str]] = {}
        """The programs of a compile (by id), as text by form."""
        self._tracks: dict[int, tuple[Track, Callable[[Rows, Track, EventRow], None]]] = {}
        self._open: dict[int, list[Slice]] = defaultdict(list)
        self._profiled: dict[int, list[_ProfilerSlice]] = defaultdict(list)
        self._folding = Folding(process, self.ledger, self.slices)
        self._working = 0  # how many slices of phases and compiles are open
        self.is_whole = False
        """Whether the trace ended, and was not cut."""
        self._last = 0

    @property
    def folded(self) -> list[Alike]:
        """The steps that are not among `steps`: they did just what the one before them did."""
        return self._folding.runs

    @property
    def is_marked(self) -> bool:
        """Whether the program marks its steps."""
        if self.began or any(not step.is_inferred for step in self.steps):
            return True
        return any(not is_inferred(run) for run in self.folded)

    def fold(self, runs: list[Alike]) -> None:
        """Take in steps that were found to do just what the one before them did."""
        self._folding.put(runs)

    def track(self, row: TrackRow) -> None:
        """Take in what a track shows, before the events on it; findings in the trace are not read, but made anew."""
        if (track := layout.parse(row.about, self.vocabulary.tracks)) and track.kind != "findings":
            self._tracks[row.uuid] = track, _TAKES.get(track.kind, Rows._slice)

    def event(self, row: EventRow) -> None:
        """Take in one event, in the order of the file."""
        if (known := self._tracks.get(row.track)) is None:
            return
        track, take = known
        if row.ns > self._last:
            self._last = row.ns
        if self.prefix:
            row.args |= {key: f"{self.prefix}{row.args[key]}" for key in _IDS if row.args.get(key) is not None}
        take(self, track, row)

    def repeats(self, repeats: Repeats) -> bool:
        """Take in steps that were like the one before; False where they are not all of this process."""
        events = repeats.template.events
        tracks = [self._tracks.get(event.track) for event in events]
        if not all(each and each[1] in _STEPPED and each[0].kind != "workers" for each in tracks):
            return False
        begins = (event.kind == proto.SLICE_BEGIN and each and each[1] is Rows._phase
                  for event, each in zip(events, tracks, strict=True))  # fmt: skip
        phases = list(compress(repeats.template.which, begins))
        read = 0
        while repeats.count and not self._folding.more(repeats):
            # behind a step that is like no other the first one is alone, too, and the second shows what they are like
            alone = 1 if read < 2 else repeats.count
            for row in repeats.rows(alone):
                self.event(row)
            self._folding.learn(repeats.template, phases)
            repeats, read = repeats.behind(alone), read + 1
        self.ledger_end = self._folding.ended
        self._last = max(self._last, self._folding.ended)
        return True

    def close(self, now: int = 0) -> None:
        """The file ends here, and with it all that is still open; `now`, where the process still runs."""
        if not self.is_whole:
            self.stop = max(self._last, self.start, now)
        for slices in self._open.values():
            for piece in slices:
                piece.end = self.stop
        if self.is_marked:  # those that are inferred do not count
            self.unfold([run for run in self.folded if is_inferred(run)])
        if self.samples or not self._folding.fits(self.steps, self.began, self.start, self.stop):
            self.unfold(self.folded)

    def unfold(self, runs: list[Alike]) -> None:
        """Make these of `folded` steps like any others."""
        self.steps += self._folding.unfold(runs)

    def _slice(self, track: Track, row: EventRow) -> None:
        if row.kind == proto.SLICE_BEGIN:
            if track.kind == "jax" and row.args.get("origin") == "library" and "location" in row.args:
                row.args["origin"] = "user"  # as earlier traces called what the program compiles of installed packages
            opened = Slice(track, row.name, row.category, row.ns, row.ns, row.args)
            self._open[row.track].append(opened)
            self._begin(opened)
        elif row.kind == proto.COUNTER:
            if isfinite(value := float(row.args["value"])):  # no curve has a point elsewhere
                self.counters[track.thread].append((row.ns, value))
        elif row.kind == proto.INSTANT:
            self._instant(row)
        elif self._open[row.track]:
            closed = self._open[row.track].pop()
            closed.end = row.ns
            closed.args |= row.args
            self._working -= _works(closed)
            if closed.category == layout.TRACE:
                self.args, self.stop, self.is_whole = closed.args, row.ns, True
            elif closed.category == layout.STEP:
                step = StepRow(*layout.parse_step(closed.name), closed.start, closed.end, closed.args)
                home, quiet = int(self.args.get("tid", 0)), not (self._working or row.flows)
                if not self._folding.take(step, home, self.ledger_end, quiet=quiet):
                    self.steps.append(step)
            elif closed.category == layout.COMPILE and row.args.get("outcome") in MADE:
                self.made[str(closed.args.get("compile"))] = None

    def _begin(self, opened: Slice) -> None:
        if opened.category == layout.TRACE:
            self.args, self.start = opened.args, opened.start
            self.vocabulary = of_trace(opened.args.get("vocabulary"))
        elif opened.track.kind == "workers":
            self.work.append(opened)
        elif opened.track.kind != "steps":
            self.slices.append(opened)
            self._working += _works(opened)

    def _frame(self, track: Track, row: EventRow) -> None:
        if row.kind == proto.SLICE_BEGIN:
            self.samples.begin(row.ns, track.tid, str(row.args.get("module", "")))
        else:
            self.samples.end(row.ns, track.tid)

    def _phase(self, _: Track, row: EventRow) -> None:
        if row.kind == proto.SLICE_BEGIN:
            if self.ledger_end is not None and row.ns > self.ledger_end:
                self.ledger.append((self.ledger_end, False, UNATTRIBUTED))
            self.ledger.append((row.ns, True, row.name))
        elif row.kind == proto.SLICE_END:
            self.ledger_end = row.ns

    def _profile(self, _: Track, row: EventRow) -> None:
        """What profilers saw, summed by what it is: of each slice the time in which no other is inside it."""
        slices = self._profiled[row.track]
        if row.kind == proto.SLICE_BEGIN:
            slices.append(_ProfilerSlice(layout.inside(row.category, row.name), row.ns, 0))
        elif row.kind == proto.SLICE_END and slices:
            closed = slices.pop()
            took = row.ns - closed.start
            if slices:
                slices[-1].inner += took
            if closed.what is not None:
                self.inside.append((closed.start, closed.what, took - closed.inner))

    def _wait(self, track: Track, row: EventRow) -> None:
        """What the thread was seen to wait for: no phase, and of no step."""
        slices = self._open[row.track]
        if row.kind == proto.SLICE_BEGIN:
            slices.append(Slice(track, row.name, "", row.ns, row.ns, row.args))
            self.waits.append(slices[-1])
        elif row.kind == proto.SLICE_END and slices:
            closed = slices.pop()
            closed.end = max(closed.start, row.ns)
            closed.args |= row.args

    def _keep_ir(self, _: Track, row: EventRow) -> None:
        """A program's text; one of several parts (forward, backward) goes below the one before."""
        forms = self.ir.setdefault(str(row.args["compile"]), {})
        text = "".join(row.args.get("text") or [])
        forms[row.name] = f"{forms[row.name]}\n{text}" if row.name in forms else text

    def _instant(self, row: EventRow) -> None:
        if row.category == layout.REPORTED:
            self.reported.append(row)
        elif row.category == layout.READY:
            self.ready.append(row)
        elif (take := _INSTANTS.get(row.name)) is not None:
            take(self, row)

    def _step_began(self, row: EventRow) -> None:
        self.began.append(StepRow(str(row.args["name"]), int(row.args["n"]), row.ns, row.ns, row.args))

    def _step_ended(self, row: EventRow) -> None:
        self.ended[str(row.args["name"]), int(row.args["n"])] = row

    def _candidate(self, row: EventRow) -> None:
        known = self.candidates.setdefault(str(row.args.pop("candidate")), {"calls": Spans()})
        known["calls"].extend(read(str(row.args.pop("calls")), row.ns))
        known |= row.args

    def _clock(self, row: EventRow) -> None:
        numbers = (int(row.args[key]) for key in ("slices", "dropped", "clock_bound_ns"))
        self.device_traces[self.process, str(row.args["source"])] = Profiled(*numbers)

    def _collector(self, row: EventRow) -> None:
        self.states[str(row.args.get("name"))] = (row.ns, row.args)


_TAKES: dict[str, Callable[[Rows, Track, EventRow], None]] = {
    "phases": Rows._phase,
    "stacks": Rows._frame,
    "ir": Rows._keep_ir,
    "waits": Rows._wait,
    **dict.fromkeys(layout.PROFILED, Rows._profile),
}
"""By kind of track, what takes in its events, where they are not slices, instants and counters."""

_STEPPED = (Rows._slice, Rows._phase)
"""What takes in the events of a step that may be folded."""

_INSTANTS: dict[str, Callable[[Rows, EventRow], object]] = {
    layout.STEP_BEGAN: Rows._step_began,
    layout.STEP_ENDED: Rows._step_ended,
    layout.CANDIDATE: Rows._candidate,
    layout.GRAPH_BREAK: lambda rows, row: rows.breaks.append(row),
    layout.NOTE: lambda rows, row: rows.notes.append(str(row.args.get("text", ""))),
    layout.CLOCK: Rows._clock,
    layout.COLLECTOR: Rows._collector,
    layout.LINES: lambda rows, row: rows.lines.append(row.args),
    layout.ENDED: lambda rows, row: rows.args.update(row.args),
}
"""By name of an instant, what takes it in."""


def _works(piece: Slice) -> bool:
    """Whether a slice is a phase or a compile, and no step or whole trace."""
    return piece.category not in ("", layout.TRACE, layout.STEP) and piece.track.kind not in ("workers", "steps")


class Locations:
    """Reads locations, relative to the root of the run, and keeps the source lines that came with them."""

    def __init__(self, root: str, cells: dict[str, str]) -> None:
        self._root = os.path.join(root, "")
        self._cells = cells
        self.code: dict[tuple[str, int], str] = {}
        """The source line at (file, line), as it read when the program ran."""
        self.blocks: dict[tuple[str, int], str] = {}
        """The lines of a loop or function, from the first, at (file, line)."""

    def read(self, place: Any) -> Location | None:
        """The location in an argument; None where it has none."""
        if not isinstance(place, dict) or "file" not in place:
            return None
        file = str(place["file"])
        file = self._cells.get(file) or file.removeprefix(self._root)
        location = Location(file, int(place.get("line", 0)), str(place.get("function", "")))
        if code := place.get("code"):
            self.code[location.file, location.line] = str(code)
        for above, decorator in enumerate(reversed(_texts(place.get("decorators"))), 1):
            self.code[location.file, location.line - above] = decorator
        if isinstance(block := place.get("block"), dict) and isinstance(text := block.get("text"), str):
            self.blocks[location.file, int(block.get("line", 0))] = text
        return location

    def key(self, key: str) -> str:
        """The key of a compile (stack:file:qualname), its file relative, too."""
        return key.replace(f":{self._root}", ":", 1)


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


# --- names stretches of a thread's time by the call stacks that were sampled in them ---------------------------------


_STANDARD_LIBRARY = sys.stdlib_module_names


class Samples:
    """The call stacks of all threads, fed as frames begin and end, in the order of time of each thread."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[str]] = defaultdict(list)
        self._since: dict[int, int] = {}
        self._spans: dict[int, list[tuple[int, int, str]]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._spans)

    def begin(self, ns: int, tid: int, module: str) -> None:
        """A function of `module` was called on that thread."""
        self._cut(ns, tid)
        self._stacks[tid].append(module)

    def end(self, ns: int, tid: int) -> None:
        """The innermost one has returned."""
        self._cut(ns, tid)
        if self._stacks[tid]:
            self._stacks[tid].pop()

    def inside(self, tid: int, start: int, end: int) -> dict[str, int]:
        """Nanoseconds by what the thread was seen to do between two times."""
        spans = self._spans.get(tid, [])
        by_function: dict[str, int] = defaultdict(int)
        for at in range(max(0, bisect_right(spans, (start,)) - 1), len(spans)):
            begin, until, what = spans[at]
            if begin >= end:
                break
            if (ns := min(end, until) - max(start, begin)) > 0:
                by_function[what] += ns
        return by_function

    def _cut(self, ns: int, tid: int) -> None:
        stack, since = self._stacks[tid], self._since.get(tid, ns)
        if stack and ns > since:
            self._spans[tid].append((since, ns, _what(stack)))
        self._since[tid] = ns


def _what(stack: list[str]) -> str:
    """What a stack of modules, outermost first, is at: "sympy under torch._inductor.sizevars".

    The standard library, and coldstep, work for whoever calls them. A package under the user's own script needs no such
    "under".
    """
    calling = [module for module in stack if not _is_standard(module)] or stack
    inner = calling[-1]
    outer = next((module for module in reversed(calling) if _package(module) != _package(inner)), None)
    if outer is None or "." not in outer:
        return inner
    return f"{_package(inner)} under {outer}"


def _is_standard(module: str) -> bool:
    package = _package(module)
    return package in _STANDARD_LIBRARY or package.startswith(("<", "coldstep"))


def _package(module: str) -> str:
    return module.partition(".")[0]
