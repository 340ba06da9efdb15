"""Turns events into the trace: tracks and slices as they come, the ledger of time, steps, and flows.

Runs on the drain thread only. Whatever needs I/O or time (quoting a source line, comparing signatures) is done
here and never in a hook.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from coldstep import events
from coldstep._util.slotted import slotted
from coldstep.clock import Snapshot, snapshot
from coldstep.events import (
    CUDA_GRAPH,
    IR,
    KERNELS,
    NOTHING,
    Args,
    Begin,
    Calls,
    CallStacks,
    CollectorState,
    Counter,
    DeviceTrace,
    DeviceWindow,
    End,
    Finding,
    GraphBreak,
    Note,
    Ready,
    Slice,
    StepBegin,
    StepEnd,
    Work,
)
from coldstep.pftrace import layout
from coldstep.pftrace.writer import OPEN_END, Writer
from coldstep.recording.buffer import Thread
from coldstep.recording.compiles_so_far import CompilesSoFar
from coldstep.recording.device_tracks import DeviceTracks, Held, Ties
from coldstep.recording.source_lines import Blocks, quoted_place, with_code
from coldstep.recording.steady_steps import Patterns, plain_step
from coldstep.recording.step_slices import StepSlices
from coldstep.recording.tracks import Tracks
from coldstep.rows.ledger import Open, Partition
from coldstep.rows.variants import counts_for_step_before
from coldstep.vocabulary import of_trace

_OUT_OF_ORDER = frozenset({Slice, Counter, Calls})  # the drain takes these apart from their thread's other events
_IR_PIECE = 1 << 16
_MAX_UNDECLARED = 20  # words of which it is told that no vocabulary has them
_BEAT_NS = 2_000_000_000  # between two signs of life of a process that waits
UNDECLARED = "that its vocabulary does not have"
"""Stands in the note on a word that a collector used and nobody declared."""


@slotted
class UnderWay:
    """A compile that has not ended: of what, for how long, in which phase; how many of how many kernels are built."""

    compile: str
    """Its id."""
    function: str
    """The function being compiled."""
    elapsed_ns: int
    """For how long."""
    phase: str | None
    """Its present phase; None where that is not known."""
    built: int
    """How many kernels are built."""
    kernels: int | None
    """Of how many; None where that is not known."""
    words: str = ""
    """The phase, in words."""
    after: str | None = None
    """The name of the `Ready` before it; None where there was none."""


@slotted
class _OpenSlice:
    ns: int
    begin: Begin
    track: int
    phase: Open | None


class Recorder:
    """Writes the events of one process. `home` is the thread that entered the trace."""

    def __init__(
        self, fd: int, home: Thread, rank: int | None, start: Snapshot, about: Args, parents: Recorder | None = None
    ) -> None:
        self.writer = writer = Writer(fd, os.getpid(), start)
        """What writes the file."""
        self._vocabulary = words = of_trace(about.get("vocabulary"))
        self._home = home
        self._undeclared: set[str] = set()
        self._open: dict[int, list[_OpenSlice]] = {}
        self._last: dict[int, int] = {}
        self._patterns = Patterns()
        self._candidates: set[str] = set()  # of which the trace says what they are
        self._ready_after: int | None = about.get("ready_after")
        self._inferred = 0  # steps, so far
        self._built = 0  # kernels that a pool's threads have compiled for the compile under way
        self._tracks = Tracks(writer, words, home, rank, self._say_undeclared)
        self._track, new_id = self._tracks.of, self._tracks.new_id
        kinds = ("steps", "phases", "findings", "coldstep")
        steps, self._phases, self.findings, self._run = (self._track(kind, home) for kind in kinds)
        """The track of findings of hindsight (`coldstep.converting.write_findings`)."""
        self.compiles: CompilesSoFar = CompilesSoFar(words, new_id, parents.compiles if parents else None)
        """What has compiled. Any thread may look after a flush."""
        self.steps = StepSlices(writer, steps, self._run, home.tid, self.compiles)
        """The steps, on their track of that file."""
        writer.begin(start.monotonic_ns, self._run, layout.TRACE, layout.TRACE, about)
        self._phase_open = False
        self._waits: int | None = None  # their track, while a wait is open on it
        self._beat = 0
        self._held = Held(self._write_held)
        self._ties = Ties()
        self._blocks = Blocks()
        self._devices = DeviceTracks(writer, new_id, self._tracks.root, self._ties, words)
        self.dropped = 0
        """How many slices of device traces had to make room."""
        self.uneventful = True
        """Whether a report has nothing to tell: no step, no compile, no note, and no collector that saw less than it
        should."""
        self.partition = Partition(start.monotonic_ns, home.tid, self._write_phase, words)
        """The ledger of time."""
        self._handlers = self._by_type()

    def _by_type(self) -> dict[type, Callable[[Any, int, Thread], None]]:
        return {
            Begin: self._on_begin,
            End: self._on_end,
            Slice: self._on_slice,
            Counter: self._on_counter,
            Work: self._on_work,
            CallStacks: self._on_stacks,
            events.Lines: self._on_lines,
            events.Waits: self._on_waits,
            GraphBreak: self._on_graph_break,
            Finding: self._on_finding,
            IR: self._on_ir,
            StepBegin: self._on_step_begin,
            StepEnd: self._on_step_end,
            Calls: self._on_calls,
            Ready: self._on_ready,
            Note: self._on_note,
            CollectorState: self._on_collector,
            DeviceWindow: self._on_device_window,
            DeviceTrace: self._on_device_trace,
        }

    def handle(self, event: events.Event, thread: Thread) -> None:
        """Write one event. Those of one thread come in the order they were appended."""
        ns = event.ns
        if type(event) not in _OUT_OF_ORDER:
            # a garbage collection between reading the clock and appending can put a later stamp first
            ns = self._last[thread.tid] = max(ns, self._last.get(thread.tid, 0))
        self._handlers[type(event)](event, ns, thread)

    def plain_step(self, taken: Sequence[tuple[int, events.Event, Thread]], at: int) -> int:
        """Write the step that begins there, if it did only what others do, and nothing else is going on. How many of
        the events that was."""
        _, begin, thread = taken[at]
        if type(begin) is not StepBegin or thread.tid != self._home.tid or not self._is_calm:
            return 0
        step = plain_step(taken, at)
        if step is None or step.times[0] <= max(self.partition.now, self._last.get(thread.tid, 0)):
            return 0
        if (known := self._patterns.get(step)) is not None:
            self.writer.packets(known.packets(step.times, begin.n))
            self._last[thread.tid] = step.times[-1]
            self.partition.went_on(step.times[-1])
            self.steps.written(begin)
            return step.events
        before = len(self.writer.gathered)
        for _, event, thread in taken[at : at + step.events]:
            self.handle(event, thread)
        if begin.n:
            self._patterns.learn(step, self.writer.gathered[before:], begin.n, self.steps.silent)
        return step.events

    @property
    def _is_calm(self) -> bool:
        """Whether no step is open, nothing else, and no step waits to be written."""
        if not self.steps.are_calm or not self.partition.is_calm or self._held.open or not self._phase_open:
            return False
        return not any(self._open.values())

    def heartbeat(self, ns: int) -> None:
        """Record that the process was alive, so that whatever is open in a cut file has an age."""
        self._beat = ns
        self.writer.instant(ns, self._run, layout.HEARTBEAT)

    def waits_on(self, ns: int) -> bool:
        """Whether the thread is in a wait of which nothing has been written for a while: should it be killed in it,
        that is how long the wait is known to have been."""
        return self._waits is not None and ns - self._beat >= _BEAT_NS

    def flush(self) -> None:
        """Write everything out. Raises OSError."""
        self.steps.announce()
        self.writer.flush()

    def end_open(self) -> None:
        """Have the file end, while it is written, so that something may be written behind it."""
        self.writer.behind = OPEN_END

    def finish(self, ns: int, about: Args, clocks: Snapshot | None = None) -> int:
        """Close the ledger and all that is open, and record how the run ended; `clocks` is how they stood then, if not
        as now. The time at which it did."""
        ns = self.partition.finish(ns)
        self.steps.write_ended(goes_on=False)
        for slices in self._open.values():
            while slices:
                self.writer.end(ns, slices.pop().track)
        if self._phase_open:
            self.writer.end(ns, self._phases)
        if self._waits is not None:
            self.writer.end(ns, self._waits)
        self._held.ends(ns)
        self._held.release()
        self.writer.end(ns, self._run, about)
        self.writer.clocks(clocks or snapshot())
        return ns

    def under_way(self, ns: int) -> UnderWay | None:
        """The compile that has been open for longest."""
        outermost = [
            (slices, entry)
            for slices in self._open.values()
            if (entry := next((each for each in slices if each.begin.compile is not None), None)) is not None
        ]
        if not outermost:
            return None
        slices, entry = min(outermost, key=lambda pair: pair[1].ns)
        phase = next((each.begin.phase for each in reversed(slices) if each.begin.phase is not None), None)
        compile_id = str(entry.begin.compile)
        function = str(self.compiles[compile_id].args.get("function", entry.begin.name))
        kernels = (slices[-1].begin.args or {}).get(KERNELS)
        words = self._vocabulary.phase(phase) if phase is not None else ""
        after = self.compiles.ready.name if self.compiles.ready is not None else None
        return UnderWay(compile_id, function, ns - entry.ns, phase, self._built, kernels, words, after)

    def _say_undeclared(self, word: str, did: str, so: str) -> None:
        if word not in self._undeclared and len(self._undeclared) < _MAX_UNDECLARED:
            self._undeclared.add(word)
            args = {"text": f"A collector {did} {word!r} {UNDECLARED}: {so}."}
            self.writer.instant(max(self._last.values(), default=0), self._run, layout.NOTE, "", args)

    def _check_phase(self, phase: str) -> None:
        if not self._vocabulary.has_phase(phase):
            so = "it is shown by that name, and is not counted as compile time"
            self._say_undeclared(phase, "emitted the phase", so)

    def _write_phase(self, ns: int, phase: str) -> None:
        if self._phase_open:
            self.writer.end(ns, self._phases)
        self._phase_open = not self._held.goes_on(ns, phase)
        if self._phase_open:
            self.writer.begin(ns, self._phases, phase)

    def _write_held(self, start: int, end: int, phase: str) -> None:
        uuid = self._tracks.of_held_phases()
        self.writer.begin(start, uuid, phase)
        self.writer.end(end, uuid)

    def _on_begin(self, event: Begin, ns: int, thread: Thread) -> None:
        track = self._track(event.track, thread)
        args = dict(event.args or {})
        category = event.phase or ""
        if event.compile is not None:
            category = layout.COMPILE
            self.uneventful = False
            self.compiles.begin(ns, event.compile, event.track, self.steps.name, args)
            self.steps.compiled(event.compile, self._vocabulary.stack_of(event.track))
            self._ties.began(ns, event.compile, args)
            args = self._blocks.begun(with_code(args)) | {"compile": event.compile}
        self.steps.records |= CUDA_GRAPH in args
        self.writer.begin(ns, track, event.name, category, args)
        phase = self.partition.begin(ns, thread.tid, event.phase) if event.phase else None
        slices = self._open.setdefault(thread.tid, [])
        if event.phase:
            self.uneventful &= not self._vocabulary.is_compiling(event.phase)
            self._check_phase(event.phase)
            self._worked_for(slices, event.phase)
        slices.append(_OpenSlice(ns, event, track, phase))

    def _worked_for(self, slices: list[_OpenSlice], phase: str) -> None:
        """Keep, of each compile that is open on a thread, that this phase was a part of it."""
        for entry in slices:
            if entry.begin.compile is not None and phase not in (known := self.compiles[entry.begin.compile].phases):
                known.append(phase)

    def _on_end(self, event: End, ns: int, thread: Thread) -> None:
        slices = self._open.get(thread.tid, [])
        if not any(entry.begin is event.begin for entry in slices):
            return  # began before this trace, or was closed with what enclosed it
        while slices:
            entry = slices.pop()
            is_own = entry.begin is event.begin
            if entry.phase:
                self.partition.end(ns, thread.tid, entry.phase)
            if self._is("xla", entry.begin.phase) and slices and (compile_id := slices[-1].begin.compile) is not None:
                self._ties.xla_worked(entry.ns, ns, compile_id, str(self.compiles[compile_id].args.get("function")))
            args = dict(event.args or {}) if is_own else {}
            if is_own and event.later is not None:
                args |= event.later()
            flows: tuple[int, ...] = ()
            if (compile_id := entry.begin.compile) is not None:
                flows = self.compiles.end(compile_id, args, self.steps.n)
                compile_ = self.compiles[compile_id]
                compile_.ended_ns = ns
                if all(outer.begin.compile != compile_id for outer in slices):
                    compile_.took_ns += ns - entry.ns
                self.compiles.look_at_late(compile_id, entry.ns, ns, thread.tid, self.steps.n)
                args = self._blocks.ended(with_code(args), compile_.args)
            self.writer.end(ns, entry.track, args, flows)
            self._count_built(entry.begin, alone=not slices)
            if is_own:
                return

    def _count_built(self, ended: Begin, *, alone: bool) -> None:
        if KERNELS in (ended.args or {}):
            self._built = 0
        elif alone and ended.compile is None and self._is("pooled", ended.phase):  # a pool's thread
            self._built += 1

    def _is(self, what: str, phase: str | None) -> bool:
        """Whether the vocabulary says that of a phase: "xla", "pooled"."""
        return phase is not None and getattr(self._vocabulary.phases.get(phase), what, False)

    def _on_slice(self, event: Slice, ns: int, thread: Thread) -> None:
        track = self._track(event.track, thread)
        self.writer.begin(event.ns, track, event.name, "", event.args)
        self.writer.end(max(event.ns, event.end_ns), track)

    def _on_counter(self, event: Counter, ns: int, thread: Thread) -> None:
        self.writer.counter(event.ns, self._tracks.of_counter(event), event.value)

    def _on_work(self, event: Work, ns: int, thread: Thread) -> None:
        end = max(event.ns, event.end_ns)
        uuid = self._tracks.of_worker(event, end)
        if event.phase:
            self._check_phase(event.phase)
        self.uneventful &= event.args.get("command") is None  # what compiled, or may have, says what it was told
        self.writer.begin(event.ns, uuid, event.name, event.phase or "", {"pid": event.pid} | event.args)
        self.writer.end(end, uuid)

    def _on_graph_break(self, event: GraphBreak, ns: int, thread: Thread) -> None:
        self.uneventful = False
        args = self._blocks.around(event.args) | {"break": event.id, "compile": event.compile}
        self.writer.instant(ns, self._track("torch", thread), layout.GRAPH_BREAK, layout.GRAPH_BREAK, args)

    def _on_finding(self, event: Finding, ns: int, thread: Thread) -> None:
        self.uneventful = False
        args: Args = {"compile": event.compile, "severity": event.severity, "text": event.text}
        args |= self._blocks.around({"evidence": event.evidence, "advice": event.advice, "location": event.location})
        self.writer.instant(ns, self._track(event.track, thread), event.kind, layout.REPORTED, args)

    def _on_stacks(self, event: CallStacks, ns: int, thread: Thread) -> None:
        for sampled in event.threads:
            track = self._track("stacks", Thread(sampled.tid, sampled.thread))
            ends: list[int] = []
            for begin, end, function, module, file, line in sampled.frames:
                while ends and ends[-1] <= begin:
                    self.writer.end(ends.pop(), track)
                args: Args = {"module": module, "location": {"file": file, "line": line, "function": function}}
                self.writer.begin(begin, track, function, "", args)
                ends.append(end)
            while ends:
                self.writer.end(ends.pop(), track)
        self._on_profile(event, ns, "py-spy", sum(len(sampled.frames) for sampled in event.threads))

    def _on_lines(self, event: events.Lines, ns: int, thread: Thread) -> None:
        stacks = [
            {"stack": list(map(quoted_place, places)), "at": [ns for ns, _ in at], "for_ns": [ns for _, ns in at]}
            for places, at in event.stacks
        ]
        args: Args = {"held_ns": event.held_ns, "sampled": stacks}
        self.writer.instant(ns, self._run, layout.LINES, "", args)

    def _on_waits(self, event: events.Waits, ns: int, thread: Thread) -> None:
        track = self._track("waits", self._home)
        if self._waits is not None:
            self.writer.end(event.ns, track, event.before)
        self._waits = track if event.name is not None else None
        if event.name is not None:
            self.writer.begin(event.ns, track, event.name, "", event.args)

    def _on_ir(self, event: IR, ns: int, thread: Thread) -> None:
        # in pieces: an argument is shown, and held by the engine, whole
        pieces = [event.text[at : at + _IR_PIECE] for at in range(0, len(event.text), _IR_PIECE)]
        args = {"compile": event.compile, "lines": event.text.count("\n") + 1, "text": pieces}
        self.writer.instant(ns, self._track("ir", thread), event.form, "", args)

    def _on_step_begin(self, event: StepBegin, ns: int, thread: Thread) -> None:
        self.uneventful = False
        event.name = layout.cut(event.name)
        # the step's slice, written at its end, must begin exactly where the ledger was cut
        event.ns = self.partition.cut(ns, thread.tid)
        self.steps.begin(event, thread.tid)

    def _on_step_end(self, event: StepEnd, ns: int, thread: Thread) -> None:
        if self.steps.open is not event.begin:
            return  # Ctrl-C came between this mark's two ends, and it was ended twice
        ns = self.partition.cut(ns)
        self.steps.end(event, ns)
        self._inferred += event.begin.inferred
        if event.begin.inferred and self._inferred == self._ready_after:
            self._on_ready(Ready(ns, layout.READY), ns, thread)

    def _on_calls(self, event: Calls, ns: int, thread: Thread) -> None:
        self.uneventful = False
        candidate = event.candidate
        args: Args = {"candidate": candidate.id, "calls": candidate.told(event.spans, ns)}
        if candidate.id not in self._candidates:
            self._candidates.add(candidate.id)
            args |= with_code({key: value for key, value in candidate.about().items() if value is not None})
        if candidate.looked:
            args |= {"looked": candidate.looked, "fed": candidate.fed or NOTHING}
        self.writer.instant(ns, self._run, layout.CANDIDATE, "", args)

    def _on_ready(self, event: Ready, ns: int, thread: Thread) -> None:
        self.uneventful = False
        self.compiles.ready = Ready(ns, event.name, event.stack)
        args = {"stack": event.stack} if event.stack is not None else None
        self.writer.instant(ns, self.steps.track, event.name, layout.READY, args)

    def _on_note(self, event: Note, ns: int, thread: Thread) -> None:
        self.uneventful = False
        self.writer.instant(ns, self._run, layout.NOTE, "", {"text": event.text})

    def _on_device_window(self, event: DeviceWindow, ns: int, thread: Thread) -> None:
        self._held.open = event.open

    def _on_device_trace(self, event: DeviceTrace, ns: int, thread: Thread) -> None:
        self.uneventful = False
        self._devices.write(event)
        self._held.executed(event.executed)
        self._on_profile(event, ns, event.source, sum(len(line.slices) for line in event.lines))

    def _on_profile(self, event: CallStacks | DeviceTrace, ns: int, source: str, slices: int) -> None:
        """Say how much a profiler saw, and how well its clock is known."""
        self.dropped += event.dropped
        args = {"source": source, "clock_bound_ns": event.clock_bound_ns, "slices": slices, "dropped": event.dropped}
        self.writer.instant(ns, self._run, layout.CLOCK, "", args)

    def _on_collector(self, event: CollectorState, ns: int, thread: Thread) -> None:
        self.steps.waits_for_more |= counts_for_step_before(event.name) and event.state not in ("absent", "failed")
        args = {"name": event.name, "state": event.state, "version": event.version, "missing": event.missing}
        self.uneventful &= event.state in ("attached", "absent")
        self.steps.blind[event.name] = event.blind
        self._patterns.forget()  # a step may be called unknown from here on
        self.writer.instant(ns, self._run, layout.COLLECTOR, "", args | {"blind": event.blind or NOTHING})
