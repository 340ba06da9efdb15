"""Turns events into the trace: tracks and slices as they come, the ledger of time, steps, and flows.

Runs on the drain thread only. Whatever needs I/O or time (quoting a source line, comparing signatures) is done
here and never in a hook.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coldstep import events
from coldstep._util.figures import duration
from coldstep._util.slotted import slotted
from coldstep.blind_spots import COMPILES
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
from coldstep.pftrace.layout import Track
from coldstep.pftrace.writer import OPEN_END, Writer
from coldstep.recording.buffer import Thread
from coldstep.recording.counters import Ended
from coldstep.recording.device_tracks import DeviceTracks, Held, Ties
from coldstep.recording.source_lines import Blocks, quoted_place, with_code
from coldstep.recording.steady_steps import Patterns, plain_step
from coldstep.rows.ledger import Open, Partition
from coldstep.rows.variants import LOADED, Candidate, Variants, counts, counts_for_step_before, is_late, is_variant
from coldstep.signature import signature_of
from coldstep.vocabulary import of_trace

_IR_PIECE = 1 << 16
_ARROWS = 8  # recompiles that an arrow can go to from what they replace, whose slice is written before they come
_MAX_UNDECLARED = 20  # words of which it is told that no vocabulary has them
_BEAT_NS = 2_000_000_000  # between two signs of life of a process that waits
UNDECLARED = "that its vocabulary does not have"
"""Stands in the note on a word that a collector used and nobody declared."""


@dataclass(slots=True)
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
    words: str = field(default="", compare=False)
    """The phase, in words."""
    after: str | None = None
    """The name of the `Ready` before it; None where there was none."""


@slotted
class _OpenSlice:
    ns: int
    begin: Begin
    track: int
    phase: Open | None


@slotted
class Retold:
    """One of the variants of an identity: what a trace must hold of it for the recompile to be explained."""

    track: str
    """The kind of its track."""
    args: Args
    """All that its segments hold."""
    phases: list[str]
    """Its phases, by the ledger's names, each once."""


@slotted
class Late:
    """A compile after a `Ready`."""

    ready: Ready
    """That one."""
    tid: int
    """The thread that compiled."""
    step: int | None
    """The ordinal of the step in which it ended; None outside of steps."""
    took_ns: int
    """How long it took, from `ready()` on."""
    warm: list[Retold]
    """What had been compiled before of its function."""
    compile: Retold
    """It itself."""

    def line(self) -> str:
        """It in one line."""
        about = self.compile.args
        place = about.get("caller") or about.get("location")
        where = f", {os.path.basename(str(place['file']))}:{place['line']}" if isinstance(place, dict) else ""
        how = "loaded from a disk cache" if about.get("outcome") == LOADED else "compiled"
        return f"after {self.ready.name}: {about.get('function')} was {how}, {duration(self.took_ns)}{where}"


@slotted
class _CompileSoFar:
    """What is known of a compile while the process runs: enough to tie a recompile to what it replaces."""

    track: str
    ns: int  # when it began
    step: str | None  # the name of the last step that was marked before it began
    args: Args = field(default_factory=dict)
    phases: list[str] = field(default_factory=list)
    is_done: bool = False
    ended_ns: int | None = None  # the last of its segments so far
    took_ns: int = 0  # all of its segments so far
    is_late: bool = False
    arrows: list[int] = field(default_factory=list)  # flows that its slice carries, for what will replace it
    arrow: int | None = None  # the flow from what it replaces

    def retold(self) -> Retold:
        return Retold(self.track, dict(self.args), list(self.phases))

    @property
    def origin(self) -> str | None:
        origin = self.args.get("origin", "")
        return str(origin) if origin is not None else None

    @property
    def outcome(self) -> str:
        return str(self.args.get("outcome"))


@slotted
class _EndedStep:
    """A step that has ended, of which it may not be known yet what counts for it."""

    begin: StepBegin
    ns: int
    args: Args
    compiles: list[str]
    records: bool  # a CUDA graph
    later: list[str]  # what was compiled since, for it if another step follows
    is_told: bool = False


class Recorder:
    """Writes the events of one process. `home` is the thread that entered the trace."""

    def __init__(
        self, fd: int, home: Thread, rank: int | None, start: Snapshot, about: Args, parents: Recorder | None = None
    ) -> None:
        self._parents = parents  # of the process that this one was forked of, which has the same functions
        # uuids and flow ids of several processes meet in a merged file: each counts from a random place
        self._ids = int.from_bytes(os.urandom(7), "little") << 8
        self._writer = Writer(fd, os.getpid(), start)
        self._vocabulary = of_trace(about.get("vocabulary"))
        self._tracks: dict[tuple[str, int], int] = {}
        self._undeclared: set[str] = set()
        self._open: dict[int, list[_OpenSlice]] = {}
        self._last: dict[int, int] = {}
        self._compiles: dict[str, _CompileSoFar] = {}
        self._variants = Variants()
        self._blind: dict[str, list[str]] = {}
        self._recompiles: deque[tuple[str, int | None]] = deque()
        self._patterns = Patterns()
        self._candidates: set[str] = set()  # of which the trace says what they are
        self._step: StepBegin | None = None
        self._owner = home.tid  # the thread that entered it
        self._step_compiles: list[str] = []
        self._step_records = False  # a CUDA graph, or warms up for one
        self._step_name: str | None = None  # of the last one that was marked
        self._waits_for_more = False  # whether what is compiled between two steps may count for the one before
        self._ended: _EndedStep | None = None
        self._ready: Ready | None = None
        self._ready_after: int | None = about.get("ready_after")
        self._inferred = 0  # steps, so far
        self.late: deque[Late] = deque()
        """What was compiled after the program had said that all was warmed up: for whoever takes it."""
        self._unannounced: Args | None = None
        self._counters: dict[str, int] = {}
        self._built = 0  # kernels that a pool's threads have compiled for the compile under way
        self._lanes: list[int] = []  # until when each track of worker processes is taken
        self._home = home
        self._root = self._new_id()
        self._writer.track(self._root, layout.root_name(rank), ordered=True)
        self._steps, self._phases, self._findings, self._run = (
            self._track(kind, home) for kind in ("steps", "phases", "findings", "coldstep")
        )
        self._writer.begin(start.monotonic_ns, self._run, layout.TRACE, layout.TRACE, about)
        self._phase_open = False
        self._waits: int | None = None  # their track, while a wait is open on it
        self._beat = 0
        self._held = Held(self._write_held)
        self._ties = Ties()
        self._blocks = Blocks()
        self._devices = DeviceTracks(self._writer, self._new_id, self._root, self._ties, self._vocabulary)
        self.dropped = 0
        """How many slices of device traces had to make room."""
        self.uneventful = True
        """Whether a report has nothing to tell: no step, no compile, no note, and no collector that saw less than it
        should."""
        self._partition = Partition(start.monotonic_ns, home.tid, self._write_phase, self._vocabulary)
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
        # a garbage collection between reading the clock and appending can put a later stamp first
        ns = self._last[thread.tid] = max(event.ns, self._last.get(thread.tid, 0))
        self._handlers[type(event)](event, ns, thread)

    def plain_step(self, taken: Sequence[tuple[int, events.Event, Thread]], at: int) -> int:
        """Write the step that begins there, if it did only what others do, and nothing else is going on. How many of
        the events that was."""
        _, begin, thread = taken[at]
        if type(begin) is not StepBegin or thread.tid != self._home.tid or not self._is_calm:
            return 0
        step = plain_step(taken, at)
        if step is None or step.times[0] <= max(self._partition.now, self._last.get(thread.tid, 0)):
            return 0
        known = self._patterns.get(step)
        if known is not None:
            self._writer.packets(known.packets(step.times, begin.n))
            self._last[thread.tid] = step.times[-1]
            self._partition.went_on(step.times[-1])
            self._step_name, self._unannounced = begin.name, None
            return step.events
        before = len(self._writer.gathered)
        for _, event, thread in taken[at : at + step.events]:
            self.handle(event, thread)
        if begin.n:
            self._patterns.learn(step, self._writer.gathered[before:], begin.n, self._silent())
        return step.events

    @property
    def _is_calm(self) -> bool:
        """Whether no step is open, nothing else, and no step waits to be written."""
        whole = self._step is None and self._ended is None and not self._waits_for_more
        if not whole or not self._partition.is_calm or self._held.open or not self._phase_open:
            return False
        return not any(self._open.values())

    def heartbeat(self, ns: int) -> None:
        """Record that the process was alive, so that whatever is open in a cut file has an age."""
        self._beat = ns
        self._writer.instant(ns, self._run, layout.HEARTBEAT)

    def waits_on(self, ns: int) -> bool:
        """Whether the thread is in a wait of which nothing has been written for a while: should it be killed in it,
        that is how long the wait is known to have been."""
        return self._waits is not None and ns - self._beat >= _BEAT_NS

    def flush(self) -> None:
        """Write everything out. Raises OSError."""
        if self._step is not None and self._unannounced is not None:
            # its slice is written when it ends: should that never come, this says that it was under way
            self._writer.instant(self._step.ns, self._run, layout.STEP_BEGAN, "", self._unannounced)
            self._unannounced = None
        if self._ended is not None and not self._ended.is_told:
            self._tell_ended(self._ended)
        self._writer.flush()

    def end_open(self) -> None:
        """Have the file end, while it is written, so that something may be written behind it."""
        self._writer.behind = OPEN_END

    def cut(self) -> None:
        """Nothing may any more."""
        self._writer.cut()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def finish(self, ns: int, about: Args, clocks: Snapshot | None = None) -> int:
        """Close the ledger and all that is open, and record how the run ended; `clocks` is how they stood then, if not
        as now. The time at which it did."""
        ns = self._partition.finish(ns)
        self._write_ended(goes_on=False)
        for slices in self._open.values():
            while slices:
                self._writer.end(ns, slices.pop().track)
        if self._phase_open:
            self._writer.end(ns, self._phases)
        if self._waits is not None:
            self._writer.end(ns, self._waits)
        self._held.ends(ns)
        self._held.release()
        self._writer.end(ns, self._run, about)
        self._writer.clocks(clocks or snapshot())
        return ns

    @property
    def idle_since(self) -> int | None:
        """As of the ledger. May be asked from any thread."""
        return self._partition.idle_since

    @property
    def findings(self) -> tuple[Writer, int]:
        """Where findings of hindsight go (`coldstep.converting.write_findings`): the file and, in it, their track."""
        return self._writer, self._findings

    @property
    def steps(self) -> int:
        """The track of the steps, in that file."""
        return self._steps

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
        function = str(self._compiles[compile_id].args.get("function", entry.begin.name))
        kernels = (slices[-1].begin.args or {}).get(KERNELS)
        words = self._vocabulary.phase(phase) if phase is not None else ""
        after = self._ready.name if self._ready is not None else None
        return UnderWay(compile_id, function, ns - entry.ns, phase, self._built, kernels, words, after)

    def take_recompiles(self) -> list[tuple[list[Retold], int | None]]:
        """The recompiles since this was last asked, each with the step in which it ended, as the variants of its
        identity, itself the last. May be called from any thread after a flush."""
        groups = []
        while self._recompiles:
            compile_id, step = self._recompiles.popleft()
            known = [row.id for row in self._variants.of(str(self._compiles[compile_id].args["identity"]))]
            variants = [self._compiles[each] for each in known[: known.index(compile_id) + 1]]
            groups.append(([row.retold() for row in variants], step))
        return groups

    def variants(self, identity: str) -> list[Args]:
        """The signatures of all that was compiled of one identity, here and in the processes that forked this one."""
        rows = (self._compiles[row.id].args for row in self._variants.of(identity))
        own: list[Args] = [{key: row[key] for key in ("inputs", "context") if row.get(key)} for row in rows]
        return [*(self._parents.variants(identity) if self._parents is not None else []), *own]

    def compiles(self) -> list[Retold]:
        """All compiles so far. May be called from any thread after a flush."""
        return [compile_.retold() for compile_ in self._compiles.values()]

    def ended(self) -> list[Ended]:
        """All compiles that have ended so far. May be called from any thread after a flush."""
        return [
            Ended(
                row.took_ns,
                row.outcome,
                row.arrow is not None or "earlier" in row.args,
                row.args.get("parent") is not None,
            )
            for row in list(self._compiles.values())
            if row.ended_ns is not None
        ]

    def variants_of(self, compile_id: str) -> tuple[list[Retold], int]:
        """A compile, the last, after all others of its identity so far; and how long it took. May be called from any
        thread after a flush."""
        compile_ = self._compiles[compile_id]
        known = (row.id for row in self._variants.of(str(compile_.args.get("identity"))))
        others = [self._compiles[each].retold() for each in known if each != compile_id]
        return [*others, compile_.retold()], compile_.took_ns

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids

    def _track(self, kind: str, thread: Thread) -> int:
        if kind not in self._vocabulary.tracks:
            self._say_undeclared(kind, "drew on a track", "see Annotations")
            kind = "annotations"
        uuid = self._tracks.get((kind, thread.tid))
        if uuid is None:
            uuid = self._tracks[kind, thread.tid] = self._new_id()
            home = thread.tid == self._home.tid
            words = self._vocabulary.tracks[kind].words
            name = words if home else f"{words}: {thread.name}"
            about = Track(kind, thread.tid, thread.name).about()
            rank = 2 * self._vocabulary.rank(kind) + (not home)
            self._writer.track(uuid, name, parent=self._root, rank=rank, about=about)
        return uuid

    def _say_undeclared(self, word: str, did: str, so: str) -> None:
        if word not in self._undeclared and len(self._undeclared) < _MAX_UNDECLARED:
            self._undeclared.add(word)
            args = {"text": f"A collector {did} {word!r} {UNDECLARED}: {so}."}
            self._writer.instant(max(self._last.values(), default=0), self._run, layout.NOTE, "", args)

    def _check_phase(self, phase: str) -> None:
        if not self._vocabulary.has_phase(phase):
            so = "it is shown by that name, and is not counted as compile time"
            self._say_undeclared(phase, "emitted the phase", so)

    def _write_phase(self, ns: int, phase: str) -> None:
        if self._phase_open:
            self._writer.end(ns, self._phases)
        self._phase_open = not self._held.goes_on(ns, phase)
        if self._phase_open:
            self._writer.begin(ns, self._phases, phase)

    def _write_held(self, start: int, end: int, phase: str) -> None:
        # a second track of the same name: on one track, the late end of a slice would end what begins at that moment
        uuid = self._tracks.get(("held phases", 0))
        if uuid is None:
            uuid = self._tracks["held phases", 0] = self._new_id()
            about = Track("phases", self._home.tid, self._home.name).about()
            rank = 2 * self._vocabulary.rank("phases") + 1
            name = self._vocabulary.tracks["phases"].words
            self._writer.track(uuid, name, parent=self._root, rank=rank, about=about)
        self._writer.begin(start, uuid, phase)
        self._writer.end(end, uuid)

    def _on_begin(self, event: Begin, ns: int, thread: Thread) -> None:
        track = self._track(event.track, thread)
        args = dict(event.args or {})
        category = event.phase or ""
        if event.compile is not None:
            category = layout.COMPILE
            self._open_segment(ns, event.compile, event.track, args)
            self._ties.began(ns, event.compile, args)
            args = self._blocks.begun(with_code(args)) | {"compile": event.compile}
        self._step_records |= CUDA_GRAPH in args
        self._writer.begin(ns, track, event.name, category, args)
        phase = self._partition.begin(ns, thread.tid, event.phase) if event.phase else None
        slices = self._open.setdefault(thread.tid, [])
        if event.phase:
            self.uneventful &= not self._vocabulary.is_compiling(event.phase)
            self._check_phase(event.phase)
            self._worked_for(slices, event.phase)
        slices.append(_OpenSlice(ns, event, track, phase))

    def _worked_for(self, slices: list[_OpenSlice], phase: str) -> None:
        """Keep, of each compile that is open on a thread, that this phase was a part of it."""
        for entry in slices:
            if entry.begin.compile is not None and phase not in (known := self._compiles[entry.begin.compile].phases):
                known.append(phase)

    def _on_end(self, event: End, ns: int, thread: Thread) -> None:
        slices = self._open.get(thread.tid, [])
        if not any(entry.begin is event.begin for entry in slices):
            return  # began before this trace, or was closed with what enclosed it
        while slices:
            entry = slices.pop()
            is_own = entry.begin is event.begin
            if entry.phase:
                self._partition.end(ns, thread.tid, entry.phase)
            if self._is_xla(entry.begin.phase) and slices and (compile_id := slices[-1].begin.compile) is not None:
                self._ties.xla_worked(entry.ns, ns, compile_id, str(self._compiles[compile_id].args.get("function")))
            args = dict(event.args or {}) if is_own else {}
            if is_own and event.later is not None:
                args |= event.later()
            flows: tuple[int, ...] = ()
            if entry.begin.compile is not None:
                flows = self._close_segment(entry.begin.compile, args)
                compile_ = self._compiles[entry.begin.compile]
                compile_.ended_ns = ns
                if all(outer.begin.compile != entry.begin.compile for outer in slices):
                    compile_.took_ns += ns - entry.ns
                if self._ready is not None:
                    self._take_if_late(self._ready, entry, ns, thread)
                args = self._blocks.ended(with_code(args), compile_.args)
            self._writer.end(ns, entry.track, args, flows)
            self._count_built(entry.begin, alone=not slices)
            if is_own:
                return

    def _count_built(self, ended: Begin, *, alone: bool) -> None:
        if KERNELS in (ended.args or {}):
            self._built = 0
        elif alone and ended.compile is None and self._is_pooled(ended.phase):  # a pool's thread
            self._built += 1

    def _is_xla(self, phase: str | None) -> bool:
        return phase is not None and (known := self._vocabulary.phases.get(phase)) is not None and known.xla

    def _is_pooled(self, phase: str | None) -> bool:
        return phase is not None and (known := self._vocabulary.phases.get(phase)) is not None and known.pooled

    def _open_segment(self, ns: int, compile_id: str, track: str, args: Args) -> None:
        self.uneventful = False
        compile_ = self._compiles.setdefault(compile_id, _CompileSoFar(track, ns, self._step_name))
        compile_.args.update(args)
        if self._step is not None and compile_id not in self._step_compiles:
            self._step_compiles.append(compile_id)
        elif (
            self._step is None and self._ended is not None and counts_for_step_before(self._vocabulary.stack_of(track))
        ):
            self._ended.later.append(compile_id)

    def _close_segment(self, compile_id: str, args: Args) -> tuple[int, ...]:
        """The flows of the segment that ends: of what will replace this compile, and of what it replaces."""
        compile_ = self._compiles[compile_id]
        compile_.args.update(args)
        identity = str(compile_.args.get("identity") or "")
        if compile_.is_done or not identity or "outcome" not in args or not is_variant(compile_):
            return ()
        compile_.is_done = True
        stack = self._vocabulary.stack_of(compile_.track)
        done = Candidate(compile_id, stack, compile_.step, signature_of(compile_.args))
        replaced = self._variants.add(identity, done)
        compile_.arrows = [self._new_id() for _ in range(_ARROWS)]
        flows = list(compile_.arrows)
        if replaced is not None:
            previous = self._compiles[replaced.id]
            # an arrow leaves from the slice that begins first: of two that overlap, that may be this one
            drawn = previous.arrows and previous.ns <= compile_.ns
            compile_.arrow = previous.arrows.pop() if drawn else self._new_id()
            flows.append(compile_.arrow)
        elif self._parents is not None and (known := self._parents.variants(identity)):
            before: Args = {"earlier": True, "before": known, "variant": len(known) + 1}
            compile_.args.update(before)
            args.update(before)
        if replaced is not None or compile_.args.get("earlier"):
            self._recompiles.append((compile_id, self._step.n if self._step is not None else None))
        return tuple(flows)

    def _take_if_late(self, ready: Ready, entry: _OpenSlice, ns: int, thread: Thread) -> None:
        """A compile's segment has ended: whether the warm-up should have had it. What is nested in another is told by
        that one."""
        compile_ = self._compiles[str(entry.begin.compile)]
        parent = self._compiles.get(str(compile_.args.get("parent")))
        nested = parent is not None and (parent.is_late or "outcome" not in parent.args)
        took = ns - max(entry.ns, ready.ns)
        if compile_.is_late or nested or not is_late(compile_, took):
            return
        compile_.is_late = True
        key = compile_.args.get("key")
        warm = [
            row.retold()
            for row in self._compiles.values()
            if row.args.get("key") == key and row.ended_ns is not None and row.ended_ns <= ready.ns
        ]
        step = self._step.n if self._step is not None else None
        self.late.append(Late(ready, thread.tid, step, took, warm, compile_.retold()))

    def _on_slice(self, event: Slice, ns: int, thread: Thread) -> None:
        track = self._track(event.track, thread)
        self._writer.begin(event.ns, track, event.name, "", event.args)
        self._writer.end(max(event.ns, event.end_ns), track)

    def _on_counter(self, event: Counter, ns: int, thread: Thread) -> None:
        uuid = self._counters.get(event.name)
        if uuid is None:
            if not self._counters:
                self._group = self._new_id()
                rank = 2 * self._vocabulary.rank("counters")
                name = self._vocabulary.tracks["counters"].words
                self._writer.track(self._group, name, parent=self._root, rank=rank, ordered=True)
            uuid = self._counters[event.name] = self._new_id()
            about = Track("counters", 0, event.name).about()
            rank = len(self._counters)
            self._writer.track(uuid, event.name, parent=self._group, rank=rank, about=about, unit=event.unit)
        self._writer.counter(event.ns, uuid, event.value)

    def _on_work(self, event: Work, ns: int, thread: Thread) -> None:
        end = max(event.ns, event.end_ns)
        lane = next((n for n, taken in enumerate(self._lanes) if taken <= event.ns), len(self._lanes))
        if lane == len(self._lanes):
            self._lanes.append(0)
        self._lanes[lane] = end
        uuid = self._tracks.get(("workers", lane))
        if uuid is None:
            # tracks of one name under one parent are the lanes of one row
            uuid = self._tracks["workers", lane] = self._new_id()
            about = Track("workers", lane, "").about()
            rank = 2 * self._vocabulary.rank("workers")
            name = self._vocabulary.tracks["workers"].words
            self._writer.track(uuid, name, parent=self._root, rank=rank, about=about)
        if event.phase:
            self._check_phase(event.phase)
        self.uneventful &= event.args.get("command") is None  # what compiled, or may have, says what it was told
        self._writer.begin(event.ns, uuid, event.name, event.phase or "", {"pid": event.pid} | event.args)
        self._writer.end(end, uuid)

    def _on_graph_break(self, event: GraphBreak, ns: int, thread: Thread) -> None:
        self.uneventful = False
        args = self._blocks.broke(event.args) | {"break": event.id, "compile": event.compile}
        self._writer.instant(ns, self._track("torch", thread), layout.GRAPH_BREAK, layout.GRAPH_BREAK, args)

    def _on_finding(self, event: Finding, ns: int, thread: Thread) -> None:
        self.uneventful = False
        args: Args = {"compile": event.compile, "severity": event.severity, "text": event.text}
        args |= with_code({"evidence": event.evidence, "advice": event.advice, "location": event.location})
        self._writer.instant(ns, self._track(event.track, thread), event.kind, layout.REPORTED, args)

    def _on_stacks(self, event: CallStacks, ns: int, thread: Thread) -> None:
        for sampled in event.threads:
            track = self._track("stacks", Thread(sampled.tid, sampled.thread))
            ends: list[int] = []
            for begin, end, function, module, file, line in sampled.frames:
                while ends and ends[-1] <= begin:
                    self._writer.end(ends.pop(), track)
                args: Args = {"module": module, "location": {"file": file, "line": line, "function": function}}
                self._writer.begin(begin, track, function, "", args)
                ends.append(end)
            while ends:
                self._writer.end(ends.pop(), track)
        self.dropped += event.dropped
        frames = sum(len(sampled.frames) for sampled in event.threads)
        args = {"source": "py-spy", "clock_bound_ns": event.clock_bound_ns, "slices": frames}
        self._writer.instant(ns, self._run, layout.CLOCK, "", args | {"dropped": event.dropped})

    def _on_lines(self, event: events.Lines, ns: int, thread: Thread) -> None:
        stacks = [
            {"stack": list(map(quoted_place, places)), "at": [ns for ns, _ in at], "for_ns": [ns for _, ns in at]}
            for places, at in event.stacks
        ]
        args: Args = {"held_ns": event.held_ns, "sampled": stacks}
        self._writer.instant(ns, self._run, layout.LINES, "", args)

    def _on_waits(self, event: events.Waits, ns: int, thread: Thread) -> None:
        track = self._track("waits", self._home)
        if self._waits is not None:
            self._writer.end(event.ns, track, event.before)
        self._waits = track if event.name is not None else None
        if event.name is not None:
            self._writer.begin(event.ns, track, event.name, "", event.args)

    def _on_ir(self, event: IR, ns: int, thread: Thread) -> None:
        # in pieces: an argument is shown, and held by the engine, whole
        pieces = [event.text[at : at + _IR_PIECE] for at in range(0, len(event.text), _IR_PIECE)]
        args = {"compile": event.compile, "lines": event.text.count("\n") + 1, "text": pieces}
        self._writer.instant(ns, self._track("ir", thread), event.form, "", args)

    def _on_step_begin(self, event: StepBegin, ns: int, thread: Thread) -> None:
        self.uneventful = False
        event.name = layout.cut(event.name)
        # the step's slice, written at its end, must begin exactly where the ledger was cut
        event.ns = self._partition.cut(ns, thread.tid)
        self._write_ended(goes_on=True)
        if not event.inferred:
            self._step_name = event.name
        self._step, self._step_compiles, self._step_records = event, [], False
        self._owner = thread.tid
        # what follows the last boundary is a step only if another one comes
        self._unannounced = None if event.inferred else {"name": event.name, "n": event.n, "tid": thread.tid}

    def _on_step_end(self, event: StepEnd, ns: int, thread: Thread) -> None:
        begin = event.begin
        if self._step is not begin:
            return  # Ctrl-C came between this mark's two ends, and it was ended twice
        ns = self._partition.cut(ns)
        args: Args = {"measures": "complete" if event.complete else "dispatch"}
        # most steps have none of these, and a hundred thousand of them are read back
        if begin.inferred:
            args["source"] = "inferred"
        if event.python_dispatches:
            args["python_dispatches"] = event.python_dispatches
        if self._owner != self._home.tid:  # which may be gone: another thread has ended it then
            args["tid"] = self._owner
        self._ended, self._step = _EndedStep(begin, ns, args, self._step_compiles, self._step_records, []), None
        if begin.inferred or not self._waits_for_more:  # nothing can be between inferred steps
            self._write_ended(goes_on=False)
        self._inferred += begin.inferred
        if begin.inferred and self._inferred == self._ready_after:
            self._on_ready(Ready(ns, layout.READY), ns, thread)

    def _write_ended(self, *, goes_on: bool) -> None:
        """Write the slice of the last step, if there is one to write; `goes_on` where another step follows."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        begin = ended.begin
        counted = [row for c in ended.compiles if counts(row := self._compiles[c])]
        later = [c for c in ended.later if goes_on and counts(self._compiles[c])]
        word = "first" if begin.n == 0 else "compiled" if counted or later or ended.records else self._silent()
        name = layout.step_name(begin.name, begin.n, word)
        self._writer.begin(begin.ns, self._steps, "", layout.STEP, ended.args, title=name)
        # at its end, so that the first arrow goes straight from the compile that is replaced to the one that replaces
        flows = tuple(row.arrow for row in counted if row.arrow is not None)
        self._writer.end(ended.ns, self._steps, None, flows)

    def _tell_ended(self, ended: _EndedStep) -> None:
        """Say that a step was there whose slice is written later: should the process be killed before."""
        about = {"name": ended.begin.name, "n": ended.begin.n}
        if self._unannounced is not None:
            self._writer.instant(ended.begin.ns, self._run, layout.STEP_BEGAN, "", self._unannounced)
            self._unannounced = None
        self._writer.instant(ended.ns, self._run, layout.STEP_ENDED, "", about | ended.args)
        ended.is_told = True

    def _silent(self) -> str:
        """The word for a step in which nothing was seen to compile."""
        return "unknown" if any(COMPILES in blind for blind in self._blind.values()) else "clean"

    def _on_calls(self, event: Calls, ns: int, thread: Thread) -> None:
        self.uneventful = False
        candidate = event.candidate
        args: Args = {"candidate": candidate.id, "calls": candidate.told(event.spans, ns)}
        if candidate.id not in self._candidates:
            self._candidates.add(candidate.id)
            args |= with_code({key: value for key, value in candidate.about().items() if value is not None})
        if candidate.looked:
            args |= {"looked": candidate.looked, "fed": candidate.fed or NOTHING}
        self._writer.instant(ns, self._run, layout.CANDIDATE, "", args)

    def _on_ready(self, event: Ready, ns: int, thread: Thread) -> None:
        self.uneventful = False
        self._ready = Ready(ns, event.name, event.stack)
        args = {"stack": event.stack} if event.stack is not None else None
        self._writer.instant(ns, self._steps, event.name, layout.READY, args)

    def _on_note(self, event: Note, ns: int, thread: Thread) -> None:
        self.uneventful = False
        self._writer.instant(ns, self._run, layout.NOTE, "", {"text": event.text})

    def _on_device_window(self, event: DeviceWindow, ns: int, thread: Thread) -> None:
        self._held.open = event.open

    def _on_device_trace(self, event: DeviceTrace, ns: int, thread: Thread) -> None:
        self.uneventful = False
        self._devices.write(event)
        self._held.executed(event.executed)
        self.dropped += event.dropped
        slices = sum(len(line.slices) for line in event.lines)
        args = {"source": event.source, "clock_bound_ns": event.clock_bound_ns, "slices": slices}
        self._writer.instant(ns, self._run, layout.CLOCK, "", args | {"dropped": event.dropped})

    def _on_collector(self, event: CollectorState, ns: int, thread: Thread) -> None:
        self._waits_for_more |= counts_for_step_before(event.name) and event.state not in ("absent", "failed")
        args = {"name": event.name, "state": event.state, "version": event.version, "missing": event.missing}
        self.uneventful &= event.state in ("attached", "absent")
        self._blind[event.name] = event.blind
        self._patterns.forget()  # a step may be called unknown from here on
        self._writer.instant(ns, self._run, layout.COLLECTOR, "", args | {"blind": event.blind or NOTHING})
