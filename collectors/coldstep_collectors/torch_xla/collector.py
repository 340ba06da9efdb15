"""Shows what torch_xla traces, compiles and runs: every lazy graph, where it was cut, and what it starts from.

Syncs are seen as they happen, through the step marker. What compiles outside them (a host read, a fallback to the
CPU) bypasses Python: it is found at the next mark or sync, with torch_xla's own stamps and its own words on the line.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any

from coldstep import clock
from coldstep import context as forms
from coldstep._util.slotted import field, slotted
from coldstep.blind_spots import BREAKS, Unseen
from coldstep.clock import now
from coldstep.collector import AheadSink, Foreseen
from coldstep.errors import first_line
from coldstep.events import Args, Begin, DeviceLine, DeviceTrace, End, GraphBreak, emit_whole
from coldstep.places import Places, location, location_of
from coldstep_collectors.patch import Patch
from coldstep_collectors.torch_xla._private.hooks import READ, Internals, Report, Reports, Syncing
from coldstep_collectors.torch_xla.caches import LazyCaches
from coldstep_collectors.torch_xla.cuts import QUIET_SYNCS, Compiled, Cuts, Place
from coldstep_collectors.torch_xla.describe import TENSOR, Graph, Looker, Sight, abstract_value
from coldstep_collectors.torch_xla.timings import COMPILE, LOWER, TRACE, TRACK, Timings, offset_ns, segment
from coldstep_collectors.values import within

_LONG_NS = 10_000_000  # from here on, what a sync waited for is asked of a metric that takes 0.2 ms to read
_MAX_VARIABLES = 100  # whose types a signature holds, beside the inputs
_MAX_NAMES = 100_000  # that are remembered
_READ_EVERY_SYNCS = 512  # between two readings of what the device has done: torch_xla remembers 1024
_BETWEEN = "between"  # two steps
_PRECISION, _USUAL_PRECISION = "mat_mul_precision", "default"
_UNSEEN_LINES = Unseen(
    "the lines of host reads (torch_xla had run before the trace, or explains itself to somebody else)", BREAKS
)


@slotted
class _Sync:
    """A sync under way."""

    ns: int
    by: Syncing
    place: Place
    begin: Begin | None = None
    sight: Sight | None = None
    graph: Graph | None = None


@slotted
class _Extraction:
    """A graph that torch.compile made and that is being made one of XLA's."""

    begin: Begin
    frame: FrameType
    inputs: list[tuple[int, str]]
    """torch_xla's number and the abstract value of each."""


@slotted
class _Entry:
    """What torch_xla tells of one compile."""

    start: int
    end: int
    report: Report | None
    answer: Args
    """Of its cache."""
    nodes: int | None


@slotted
class _Fallbacks:
    """What ran on the CPU because a kernel is missing, where that cut graphs."""

    calls: Counter[str]
    cuts: int

    @property
    def explain_all(self) -> bool:
        """Whether no value was read: with several cuts, the cause of each is unknown."""
        return bool(self.calls) and READ not in self.calls and self.calls.total() >= self.cuts

    @property
    def reason(self) -> str:
        operations = ", ".join(sorted(name for name in self.calls if name != READ))
        if self.explain_all:
            return f"{operations} has no kernel in torch_xla: its inputs are computed at once and copied to the CPU"
        without = f", or needed by {operations}, which has no kernel in torch_xla" if operations else ""
        return f"a value is read on the host{without}: what it takes of the pending graph is compiled and run at once"

    def of_break(self, stack: list[Args], where: Args) -> Args:
        """The graph break of a read in this place."""
        return {
            "reason": self.reason,
            "kind": "unsupported_call" if self.explain_all else "host_read",
            "function": where["function"],
            "location": where,
            "stack": stack,
            "hints": [],
        }


@slotted
class _Made:
    """How many tensors came to be between two steps, or two syncs at one place: more than the last time, and the
    program may have turned to something else (another model, another loop)."""

    counts: dict[str, int] = field(default_factory=dict)
    usual: dict[str, int] = field(default_factory=dict)
    suspects: set[tuple[str, int]] = field(default_factory=set)
    harmless: set[tuple[str, int]] = field(default_factory=set)
    """What was more, and nothing compiled."""

    def is_more(self, where: str, count: int) -> bool:
        made = count - self.counts.get(where, count)
        more = made > self.usual.get(where, made) and (where, made) not in self.harmless
        self.counts[where], self.usual[where] = count, made
        if more:
            self.suspects.add((where, made))
        return more

    def settle(self, compiled: bool) -> None:
        """Whether, after all, something has compiled."""
        if not compiled:
            self.harmless |= self.suspects
        self.suspects.clear()


class TorchXla:
    """The collector `torch_xla`."""

    name = "torch_xla"

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._reports: Reports | None = None
        self._names: dict[int, str] = {}
        self._before: Sight | None = None  # what was there when the step began, or the last sync ended
        self._first: tuple[str, list[Args], list[str]] | None = None
        """Of a first step: its latest compile, what that starts from, and the optimizers' states that were empty."""
        self._quiet = 0
        self._syncs = 0
        self._synced = 0  # the end of the last sync
        self._breaks = 0
        self._extracted = 0

    def start(self, sink: AheadSink) -> None:
        """Attach when torch_xla is there."""
        self._sink = sink
        self._started = clock.snapshot()
        sink.when_imported("torch_xla", self._attach)

    def stop(self) -> list[str]:
        """Put the step marker back, and report what stays."""
        if not self._patches:
            return []
        self._timings.executions.since(now())
        if self._timings.executions.slices:
            drift = self._started.monotonic_ns - self._started.realtime_ns - offset_ns()
            bound = abs(drift) + self._started.uncertainty_ns
            line = DeviceLine("device", "torch_xla", list(self._timings.executions.slices))
            self._sink.emit(DeviceTrace(now(), self.name, bound, [line], [], self._timings.executions.dropped))
        left = [patch.undo() for patch in self._patches]
        if self._reports is not None:
            left += self._reports.stop()
        return [words for words in left if words is not None]

    def _attach(self, torch_xla: Any) -> None:
        sink = self._sink
        self._internals = internals = Internals(torch_xla)
        if internals.usable:
            self._torch = sys.modules["torch"]
            self._whose = Places(self._torch, torch_xla)
            self._cuts = Cuts(self._whose)
            self._looker = Looker(self._torch, internals, self._whose)
            begins, ended = sink.guarded(self.name, self._sync_begins), sink.guarded(self.name, self._sync_ended)
            self._patches += filter(None, [internals.around_syncs(begins, ended)])
            sink.when_imported("torch_xla.core.dynamo_bridge", self._attach_openxla)
        late = internals.usable and bool(internals.counter("UncachedCompile") or internals.counter("MarkStep"))
        if internals.usable:
            self._caches = LazyCaches(internals)
            self._uncached, self._cached = self._lookups()
            self._fallbacks = internals.fallbacks()
            self._made = _Made()
            self._timings = Timings(sink, internals.samples)
            if late or Reports.taken():
                internals.missing.append(_UNSEEN_LINES)
            else:
                self._reports = Reports()
            sink.on_mark(sink.guarded(self.name, self._marked))
            sink.on_wait(self._wait)
            sink.on_first_step(sink.guarded(self.name, self._ahead))
        state = "late" if late else "partial" if internals.missing else "attached"
        sink.state(self.name, state, getattr(torch_xla, "__version__", None), internals.missing)

    def _attach_openxla(self, bridge: Any) -> None:
        begins = self._sink.guarded(self.name, self._extraction_begins)
        ended = self._sink.guarded(self.name, self._extraction_ended)
        self._patches += filter(None, [self._internals.around_extractions(bridge, begins, ended)])

    # --- hooks ------------------------------------------------------------------------------------------------

    def _marked(self, step_begins: bool) -> None:
        """The program is about to mark something: what came before belongs before the mark."""
        self._catch_up(sys._getframe(1))
        if step_begins:
            self._look_again_if_more(_BETWEEN)
            if self._quiet < QUIET_SYNCS:
                self._look_before(sys._getframe(1), None)
        else:
            self._made.counts[_BETWEEN] = self._tensors_made()

    def _sync_begins(self, frame: FrameType) -> _Sync:
        self._catch_up(frame)
        by = self._internals.syncing(frame)
        place = self._cuts.of_sync(by)
        self._look_again_if_more(place.identity)
        sync = _Sync(now(), by, place)
        if not self._syncs:  # the first step begins with its sync: what came before may be anything
            self._sink.step_boundary(sync.ns, is_step=False)
        if place.looks:
            self._timings.draw_tracing(sync.ns, self._synced, self._quiet < QUIET_SYNCS)
            self._watch(sync)
        return sync

    def _sync_ended(self, sync: _Sync | None, failed: bool) -> None:
        if sync is None:
            return
        ns = now()
        self._syncs += 1
        uncached, cached = self._lookups()
        again = uncached != self._uncached
        ran = again or cached != self._cached
        self._uncached, self._cached = uncached, cached
        compiles = self._timings.new(self._timings.compiles, sync.ns, ns) if again else []
        emit = self._sink.emit
        is_long = bool(compiles) or sync.begin is not None or ns - sync.ns >= _LONG_NS
        if (begin := sync.begin) is None:
            begin = Begin(sync.ns, "sync", TRACK, None if is_long else LOWER)
            emit(begin)
        self._quiet = 0 if compiles else self._quiet + 1
        if compiles or self._quiet == QUIET_SYNCS:
            self._made.settle(bool(compiles))
        if ran:
            sync.place.looks = QUIET_SYNCS if compiles else 0
        elif sync.place.looks:
            sync.place.looks -= 1
        if is_long:
            self._timings.draw_rest(self._compiled_by(sync, compiles, failed), ns)
        emit(End(ns, begin))
        self._synced = ns
        if self._quiet < QUIET_SYNCS:
            # nothing of the program's ran meanwhile: what was in reach before the sync still is
            self._look_before(sync.by.frame, sync.by.function, sync.sight)
        else:
            self._before = None
        if compiles and self._first is not None:
            self._sink.call_ended(sync.by.frame, None)
        if sync.by.kind != "inputs":  # last, for no step has begun before it returns
            self._sink.step_boundary(ns, is_step=ran and sync.by.kind != "entry")
        if self._syncs % _READ_EVERY_SYNCS == 0:
            self._timings.executions.since(ns)

    def _extraction_begins(self, frame: FrameType, args: Sequence[Any]) -> _Extraction:
        self._catch_up(frame)
        inputs = [(self._internals.id_of(tensor), abstract_value(tensor)) for tensor in _lazy(self._torch, args)]
        begin = Begin(now(), "extract the graph of a torch.compile call", TRACK, TRACE)
        self._sink.emit(begin)
        return _Extraction(begin, frame, inputs)

    def _extraction_ended(self, extraction: _Extraction | None) -> None:
        if extraction is not None:
            self._catch_up(extraction.frame, extraction)
            self._sink.emit(End(now(), extraction.begin))

    def _wait(self, x: Any) -> None:
        if not (lazy := _lazy(self._torch, x)):
            return
        if self._internals.has_evidence and self._internals.pending(lazy):
            self._sink.note("coldstep.wait was given a tensor that no torch_xla.sync() has begun to compute: it waited "
                            "for earlier work only.")  # fmt: skip
        self._internals.wait()

    def _ahead(self, *_: object) -> list[Foreseen]:
        """What the first step has compiled last is compiled again where it made an optimizer's state: the next step
        starts from that."""
        first, self._first = self._first, None
        return [] if first is None or self._before is None else _foreseen(*first, self._before)

    # --- a sync -----------------------------------------------------------------------------------------------

    def _watch(self, sync: _Sync) -> None:
        """Before a sync that may compile: what is pending, and from what inputs. Afterwards nobody can tell."""
        has_run = self._internals.has_evidence and _wait_before(sync, self._internals, self._sink)
        ours = Begin(sync.ns, "look at the pending graph", "coldstep", "coldstep")
        self._sink.emit(ours)
        try:
            if has_run:
                by, names, ir = sync.by, self._names, self._sink.ir
                sync.sight, sync.graph = self._looker.look_at_graph(by.frame, by.function, names, ir)
        except RuntimeError:  # torch_xla's refusals: a graph that it cannot lower will fail in the sync itself
            sync.graph = None
        sync.ns = now()
        self._sink.emit(End(sync.ns, ours))
        sync.begin = Begin(sync.ns, "sync", TRACK)
        self._sink.emit(sync.begin)
        self._sink.wake()

    def _compiled_by(self, sync: _Sync, times: list[tuple[int, int]], failed: bool) -> int:
        """Emit what a sync has compiled; when the last of it was done."""
        at = sync.ns
        frame = self._whose.users_frame(sync.by.frame)
        for entry in self._entries(times, self._internals.nodes(len(times))):
            graph, sync.graph = sync.graph, None  # of several graphs (one for each device) the first has all evidence
            args = self._arguments(sync, graph, entry, frame)
            ending = {"outcome": "compiled", **entry.answer}
            if graph is not None:
                ending["program"] = graph.program
            if failed and entry.end == times[-1][1]:
                ending = {"outcome": "failed", "error": first_line(sys.exc_info()[1])}
            phases = [(LOWER, at, entry.start), (COMPILE, entry.start, entry.end)]
            compile_id = segment(self._sink, at, phases, args, ending)
            if self._before is not None and self._sink.in_first_step():
                without = [state for state, kept in self._before.states.items() if kept == "{}"]
                self._first = compile_id, args["inputs"], without
            for form, text in graph.programs.items() if graph is not None else ():
                self._sink.keep_ir(compile_id, form, partial(str, text))
            at = entry.end
        return at

    def _entries(self, times: list[tuple[int, int]], nodes: Sequence[int | None]) -> list[_Entry]:
        """What torch_xla tells of its last compiles."""
        reports = self._read_reports(len(times))
        rows = zip(times, reports, self._caches.answers(reports), nodes, strict=True)
        return [_Entry(start, end, report, answer, count) for (start, end), report, answer, count in rows]

    def _arguments(self, sync: _Sync, graph: Graph | None, entry: _Entry, frame: FrameType | None) -> Args:
        sight = sync.sight or self._looker.look(sync.by.frame, sync.by.function)
        context = self._context(sync.place, sight, graph, entry)
        inputs = graph.inputs if graph is not None else _same_inputs(sync.place, sight)
        return self._finish(sync.place, sight, inputs, context, entry, frame)

    def _finish(
        self, place: Place, sight: Sight, inputs: list[Args], context: Args, entry: _Entry, frame: FrameType | None
    ) -> Args:
        before = self._before.types if self._before is not None else filter(_is_given, sight.types)
        place.compiled = Compiled(inputs, set(sight.types), set(before))
        given = {row["argument"] for row in inputs}
        inner = ((name, type_) for name, type_ in sight.types.items() if name not in given and _is_given(name))
        context |= forms.VARIABLE.at(dict(itertools.islice(inner, _MAX_VARIABLES)))
        caller = location_of(frame) if frame is not None else place.about["location"]
        is_line = place.about["function"] != place.about["location"]["function"]
        return {
            "part": "forward",
            **place.about,
            "identity": place.identity,
            "caller": caller,
            "within": within(frame, self._whose) if is_line else None,
            "inputs": inputs,
            "context": context,
            "fingerprint": entry.report.fingerprint if entry.report is not None else None,
        }

    def _context(self, place: Place, sight: Sight, graph: Graph | None, entry: _Entry) -> dict[str, str]:
        """What a graph's signature says beyond its inputs."""
        context = dict(graph.context) if graph is not None else {}
        count = len(graph.inputs) if graph is not None else None
        if entry.report is not None:
            count = entry.report.inputs
            context[forms.GRAPH_OUTPUTS.key()] = str(entry.report.outputs)
        numbers = ((forms.GRAPH_INPUTS, count), (forms.GRAPH_NODES, entry.nodes))
        context |= {form.key(): str(number) for form, number in numbers if number is not None}
        if (precision := self._internals.matmul_precision() or _USUAL_PRECISION) != _USUAL_PRECISION:
            context |= {forms.CONFIG.key(_PRECISION): precision, forms.USUAL.key(_PRECISION): _USUAL_PRECISION}
        context |= forms.NUMBER.at(sight.numbers) | forms.STATE.at(sight.states)
        if sight.training:
            context[forms.TRAINING.key()] = sight.training
        if self._before is not None:
            context[forms.GRADIENTS.key()] = sight.gradients(self._before)
        if graph is not None and place.compiled is not None and (older := _older(graph, place.compiled)):
            context[forms.OLDER.key()] = forms.listed(older)
        context[forms.SYNCS.key()] = str(self._syncs)
        return context

    # --- what bypassed Python ---------------------------------------------------------------------------------

    def _catch_up(self, frame: FrameType, extraction: _Extraction | None = None) -> None:
        """Emit what was compiled since the last sync or mark: host reads, fallbacks, graphs of torch.compile's."""
        uncached = self._internals.counter("UncachedCompile")
        if uncached == self._uncached:
            return
        ns = now()
        looked_up = -self._uncached - self._cached
        self._uncached, self._cached = self._lookups()
        looked_up += self._uncached + self._cached
        for start, end in self._timings.new(self._timings.eager, 0, ns):
            segment(self._sink, start, [(COMPILE, start, end)], _EAGER, {"outcome": "compiled"})
        if not (times := self._timings.new(self._timings.compiles, 0, ns)):
            return  # somebody has cleared the counters
        self._timings.draw_tracing(times[0][0], self._synced, self._quiet < QUIET_SYNCS)
        self._quiet = 0
        before, self._fallbacks = self._fallbacks, self._internals.fallbacks()
        fallbacks = _Fallbacks(self._fallbacks - before, len(times))
        sight = self._looker.look(frame)
        sizes = self._internals.nodes(len(times)) if looked_up == len(times) else [None] * len(times)
        rows = self._entries(times, sizes)
        executions = self._timings.executions.since(times[0][1])
        for entry in rows:
            self._timings.draw_uploads(entry.start)
            if extraction is not None:
                self._extracted_graph(entry, extraction, sight)
                continue
            ran = next((span for span in executions if span[0] >= entry.end), None)
            self._read_by_host(entry, ran, sight, fallbacks)
        self._timings.draw_uploads(ns)

    def _extracted_graph(self, entry: _Entry, extraction: _Extraction, sight: Sight) -> None:
        """A compile of a graph that Dynamo has handed over: a new one each time, since Dynamo has told why."""
        self._extracted += 1
        place = self._cuts.place("openxla", *self._cuts.calling(extraction.frame), number=self._extracted)
        names = self._names | sight.ids
        inputs: list[Args] = [{"argument": names.get(id, TENSOR), "type": type_} for id, type_ in extraction.inputs]
        context = self._context(place, sight, None, entry)
        args = self._finish(place, sight, inputs, context, entry, self._whose.users_frame(extraction.frame))
        phases = [(COMPILE, entry.start, entry.end)]
        segment(self._sink, entry.start, phases, args, {"outcome": "compiled", **entry.answer})

    def _read_by_host(self, entry: _Entry, ran: tuple[int, int] | None, sight: Sight, fallbacks: _Fallbacks) -> None:
        report = entry.report
        stack = [each for each in (report.frames if report is not None else ()) if not self._whose.is_known(each[1])]
        dynamo = report.of_dynamo if report is not None else None
        kind = {"graph": "openxla", "inputs": "inputs"}.get(dynamo or "", "read")
        function, file, line = stack[0] if stack else ("", "<unknown>", 0)
        place = self._cuts.place(kind, *((file, line, function) if stack or kind == "read" else self._cuts.call))
        context = self._context(place, sight, None, entry)
        phases = [(COMPILE, entry.start, entry.end)]
        if kind == "read":
            context[forms.READ.key()] = "yes"
            if ran is not None:  # the program waits for what it reads
                phases.append(("execute", *ran))
        args = self._finish(place, sight, _same_inputs(place, sight), context, entry, None)
        if kind == "read":
            args["caused_by"] = f"xla{self._breaks}"
        compile_id = segment(self._sink, entry.start, phases, args, {"outcome": "compiled", **entry.answer})
        if kind == "read":
            users = [location(file, line, name) for name, file, line in reversed(stack) if self._whose.is_users(file)]
            args = fallbacks.of_break(users, users[-1] if users else place.about["location"])
            self._sink.emit(GraphBreak(entry.end, f"xla{self._breaks}", compile_id, args))
            self._breaks += 1

    # --- small ------------------------------------------------------------------------------------------------

    def _look_again_if_more(self, where: str) -> None:
        if self._made.is_more(where, self._tensors_made()) and self._quiet >= QUIET_SYNCS:
            self._quiet = 0
            self._timings.forget_tracing()  # the sum of many steps
            for place in self._cuts.known.values():
                place.looks = max(place.looks, 1)

    def _lookups(self) -> tuple[int, int]:
        return self._internals.counter("UncachedCompile"), self._internals.counter("CachedCompile")

    def _tensors_made(self) -> int:
        return self._internals.counter("CreateXlaTensor")

    def _look_before(self, frame: FrameType, function: Any, sight: Sight | None = None) -> None:
        if sight is None and self._internals.has_evidence:
            sight = self._looker.look(frame, function)
        self._before = sight
        if self._before is not None:
            if len(self._names) > _MAX_NAMES:
                self._names.clear()
            self._names |= self._before.ids
        self._timings.forget_tracing()

    def _read_reports(self, count: int) -> list[Report | None]:
        """torch_xla's words on the last compiles; None for each where they cannot be matched."""
        reports = self._reports.read() if self._reports is not None and count else []
        return list(reports) if len(reports) == count else [None] * count


_EAGER: Args = {"part": "forward", "function": "eager operation", "origin": "eager", "inputs": [], "context": {}}


def _wait_before(sync: _Sync, internals: Internals, sink: AheadSink) -> bool:
    """Wait for what the device was handed before this sync: that is the program's time and not ours. False where it
    failed, as it will in the sync itself."""
    try:
        internals.wait()
    except RuntimeError:
        return False
    if (ran := now()) - sync.ns >= _LONG_NS:
        emit_whole(sink.emit, Begin(sync.ns, "execute", "execute", "execute"), ran)
        sync.ns = ran
    return True


def _foreseen(compile_id: str, inputs: list[Args], without: list[str], before: Sight) -> list[Foreseen]:
    """A compile again, from its inputs and the states that were empty then."""
    made: list[Args] = [
        {"argument": name, "type": type_}
        for name, type_ in before.types.items()
        if any(name.startswith(f"{state}[") for state in without)
    ]
    context = {forms.GRAPH_INPUTS.key(): None} | forms.STATE.at(before.states)
    return [Foreseen(compile_id, {"inputs": [*inputs, *made], "context": context})] if made else []


def _same_inputs(place: Place, sight: Sight) -> list[Args]:
    """The inputs of a place's last graph as they are now, where those of the new one were not looked at."""
    if (last := place.compiled) is None:
        return []
    rows = [{"argument": row["argument"], "type": sight.types.get(row["argument"], row["type"])} for row in last.inputs]
    new = [name for name in sight.types if ".state[" in name and name not in last.seen]
    return rows + [{"argument": name, "type": sight.types[name]} for name in new]


def _older(graph: Graph, compiled: Compiled) -> list[str]:
    """Inputs that a place's last graph did not have, although they were there when its step began."""
    names = {row["argument"] for row in compiled.inputs}
    new = [row["argument"] for row in graph.inputs if row["argument"] not in names]
    return [name for name in new if name in compiled.before]


def _is_given(name: str) -> bool:
    """Whether a tensor is none that training itself makes: an optimizer's state or a gradient."""
    return ".state[" not in name and not name.endswith(".grad")


def _lazy(torch: Any, x: Any) -> list[Any]:
    """The tensors of torch_xla's in `x`."""
    return [tensor for tensor in _tensors(torch, x) if tensor.device.type == "xla"]


def _tensors(torch: Any, x: Any) -> list[Any]:
    if issubclass(type(x), torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in _tensors(torch, part)] if isinstance(x, (list, tuple)) else []
