"""Shows what Dynamo compiles: every frame with its inputs, what made it compile again, and where its graph broke."""

from __future__ import annotations

import dis
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from types import CodeType, ModuleType
from typing import Any
from weakref import ref

from coldstep._util.expressions import expression
from coldstep._util.figures import count
from coldstep._util.slotted import slotted
from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES, Unseen
from coldstep.clock import now
from coldstep.collector import AheadSink, own_time
from coldstep.errors import contained, first_line, text_of
from coldstep.events import NOTHING, Args, Finding, GraphBreak
from coldstep.places import location
from coldstep_collectors.names import Hook, missing, unknown_version
from coldstep_collectors.patch import Patch
from coldstep_collectors.torch._private import ahead, artifacts, aside, breaks, caches, frames, limits, names, programs
from coldstep_collectors.torch._private.breaks import BreakReason
from coldstep_collectors.torch._private.frames import CompilingFrame
from coldstep_collectors.torch._private.spans import Closed, Compile, Segment, has_compiled, spans
from coldstep_collectors.torch.describe import Describer, parts, short
from coldstep_collectors.torch.graph_breaks import WORDS_LIMIT, Breaks, about_break, inlined_chain
from coldstep_collectors.torch.lookahead import Prospects
from coldstep_collectors.unrolled import unrolled
from coldstep_collectors.values import first_lines

# PyTorch 2.13: "L['x']:0,L['self'].scale"
_SOURCES = expression(r"[\w\[\]'.:,]{1,1000}")
_SWITCHED_OFF = (
    "the program switched off PyTorch's structured trace, as logging.config does with all loggers that exist: coldstep "
    "switched it on again; of a compile that was under way, graph breaks may be missing"
)


_NEAR_LIMIT, _REASONS = 2, 5
_RETRACED = (
    "A region is traced again where what it looks at is another than in the traces that there are: give each call what "
    "differs as a tensor, or let it be equal. Beyond max_reuse_entries traces PyTorch ends the compile with an error."
)


class Dynamo:
    """The collector `dynamo`."""

    name = "dynamo"

    def start(self, sink: AheadSink) -> None:
        """Attach when torch is there."""
        self._sink = sink
        self._torch: Any = None
        self._missing: list[str] = []
        self._late: bool | None = False
        self._graphs: int | None = None
        """How many graphs PyTorch had counted before; None once a compile was seen."""
        self._breaks = Breaks()
        self._epochs = Epochs()
        self._early = _Early()
        self._limited: limits.OfThread | None = None
        """The first limit that was reached."""
        self._spans = spans(sink)
        self._spans.segments = _Guarded(sink.guarded(self.name, self._open), sink.guarded(self.name, self._close))
        self._artifacts = artifacts.Artifacts(aside.guarded(sink, self.name, self._artifact), self._spans, sink)
        self._patches: list[Patch] = []
        sink.when_imported("torch", self._attach)
        sink.when_imported(programs.MODULE, self._watch_programs)
        sink.when_imported(programs.DIVIDING, self._watch_division)
        sink.when_imported(programs.REGIONS, self._watch_regions)
        sink.when_imported(aside.MODULE, aside.skip_our_files)
        sink.when_imported(ahead.MODULE, self._watch_loads)
        for module, hooks in names.DYNAMO.items():
            sink.when_imported(module, partial(self._look_for, hooks))
        self._spans.join(self.name, self._tell)

    def stop(self) -> list[str]:
        """Put back every hook that is still ours."""
        self._spans.segments = None
        self._tell_limit()
        if self._graphs is not None and (unseen := frames.graphs() - self._graphs) > 0:
            words = f"{count(unseen, 'graph')} that PyTorch counted (no hook was called for any)"
            self._missing.append(Unseen(words, COMPILES, RECOMPILES, BREAKS))
            self._tell()
        left = [self._artifacts.remove(), *(patch.undo() for patch in self._patches)]
        return [*filter(None, left), *self._spans.leave(self.name)]

    def _attach(self, torch: Any) -> None:
        self._torch = torch
        self._describer = Describer(torch, lambda: names.REGION.unseen not in self._missing)
        self._prospects = Prospects(torch, self._sink, self._describer)
        self._sink.on_first_step(self._sink.guarded(self.name, self._prospects.ahead))
        self._late, self._graphs = has_compiled(), frames.graphs()
        if (unseen := self._artifacts.install()) is not None:
            self._missing.append(unseen)
        if (newer := unknown_version("PyTorch", torch.__version__, names.NEWEST)) is not None:
            self._sink.note(newer)
        self._sink.on_wait(self._wait)
        self._tell()

    def _look_for(self, hooks: tuple[Hook, ...], _module: ModuleType) -> None:
        if unseen := [words for words in missing(hooks) if words not in self._missing]:
            self._missing += unseen
            self._tell()

    def _tell(self) -> None:
        if self._torch is not None:
            self._spans.tell(self.name, self._torch, self._late, self._missing)

    def _wait(self, x: Any) -> None:
        cuda = self._torch.cuda
        if cuda.is_initialized():
            tensors = [part for _, part in parts("", x) if isinstance(part, self._torch.Tensor)]
            for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
                cuda.synchronize(device)

    def _watch_loads(self, _: ModuleType) -> None:
        self._patches += filter(None, [ahead.watch_loads(aside.aside(self._spans.event))])

    # --- programs ---------------------------------------------------------------------------------------------

    def _watch_programs(self, module: ModuleType) -> None:
        patch = programs.watch(module, self._sink.guarded(self.name, self._seen))
        self._keep(patch, "what a graph computes (this version of PyTorch hands it on in another way)")

    def _watch_division(self, module: ModuleType) -> None:
        patch = programs.watch_division(module, self._sink.guarded(self.name, self._divided))
        self._keep(patch, "whether DDP divides a graph (this version of PyTorch does it in another way)")

    def _watch_regions(self, module: ModuleType) -> None:
        self._patches += programs.watch_regions(module, aside.guarded(self._sink, self.name, self._region))

    def _region(self, function: Any, graph: Any, call: programs.RegionCall) -> None:
        if (segment := self._spans.current()) is None or (made := programs.region(function)) is None:
            return
        compile = segment.compile
        if compile.graph is None or compile.graph() is not graph:
            compile.graph, compile.regions = ref(graph), {}
        region = compile.regions.setdefault(made.code, made)
        region.reused += call.is_reused
        region.traced += not call.is_reused
        region.refused |= dict.fromkeys(() if call.is_reused else call.refused)

    def _tell_regions(self, compile: Compile) -> None:
        for region in compile.regions.values():
            if (finding := of_region(region, compile)) is not None:
                self._sink.emit(finding)

    def _keep(self, patch: Patch | None, unseen: str) -> None:
        """Undo the patch at the end; where there is none, tell what is not seen."""
        if patch is None:
            self._missing.append(Unseen(unseen))
            self._tell()
        else:
            self._patches.append(patch)

    def _divided(self, parts: int) -> None:
        if (segment := self._spans.current()) is None:
            return
        compile = segment.compile
        text = f"{compile.function} is compiled in {parts} parts: its graph is divided at DDP's buckets of gradients"
        self._sink.emit(Finding(now(), "split_graph", "note", text, "torch", compile.id))

    def _seen(self, gm: Any) -> None:
        if (segment := self._spans.current()) is None:
            return
        with own_time(self._sink.emit, "look at the graph"):
            segment.compile.program = programs.program(gm)
            segment.compile.written = programs.written(gm)

    # --- compiles ---------------------------------------------------------------------------------------------

    def _open(self, part: str, enclosing: Segment | None) -> tuple[Segment, Args] | None:
        if self._torch is None:
            return None
        if self._artifacts.attend():
            self._sink.note(_SWITCHED_OFF)
        args: Args = {"part": part}
        if part in ("forward", "ahead"):
            frame = frames.compiling_frame() if part == "forward" else ahead.compiling()
            if frame is None:
                return None
            compile, about = self._describe(frame)
            args |= about
            args["parent"] = enclosing.compile.id if enclosing else None
        elif part == "load":
            compile = Compile(self._sink.new_compile(), "a compiled function", ("", ""), outcome="cache_hit")
            args["caller"] = self._describer.caller(sys._getframe(1))
        else:
            known = self._spans.remembered()
            if known is None or (enclosing and enclosing.compile is known and part == enclosing.part):
                return None  # its forward was compiled before this trace; or a part of this backward
            compile = known
        whole = enclosing is None or enclosing.compile is not compile
        self._graphs = None
        return Segment(compile, part, whole, enclosing is None, id(sys.exc_info()[1])), args

    def _describe(self, frame: CompilingFrame) -> tuple[Compile, Args]:
        code = frame.code
        went_on = breaks.resumed(code.co_name)
        place = code.co_filename, went_on[0] if went_on else code.co_name
        earlier = {"earlier": True} if self._late is not False and self._epochs.began_before(frame) else {}
        about = self._describer.describe(frame, self._epochs.of(frame.numbers)) | earlier
        compile = Compile(self._sink.new_compile(), about["function"], place)
        self._spans.remember(compile)
        self._prospects.compiled(compile.id, about["framework_id"], frame)
        self._breaks.compiling(place)
        if self._early.of is not None and self._early.of == frame.numbers:
            self._failed(compile, self._early.reasons, frame)
            self._early.of = None
        about["limit"] = limits.recompile_limit() if frame.numbers is not None else None
        if went_on:
            about["caused_by"] = self._breaks.cause_of(place, went_on[1])
        return compile, about

    def _close(self, segment: Segment, metadata: Mapping[str, Any] | None) -> Closed | None:
        compile = segment.compile
        if not segment.whole:
            return None
        error, metadata = sys.exc_info()[1], metadata or {}
        if error is not None and id(error) == segment.handling:
            error = None
        self._complete_caches(compile, metadata)
        args: Args = {}
        if segment.part == "forward":
            if names.TOLD.unseen in self._missing and (operations := frames.operations()) is not None:
                metadata = {**metadata, "graph_op_count": operations}
            compile.outcome, words = _outcome(metadata, error)
            if compile.outcome == "limit" and self._limited is None:
                users = self._describer.places.users_frames(sys._getframe(1))
                self._limited = limits.of_thread(compile.id, compile.function, users)
            args |= self._made(compile, metadata, error)
            self._tell_regions(compile)
        else:
            words = first_lines(text_of(error)) if error is not None else None
            compile.outcome = "failed" if error is not None else compile.outcome
            args |= self._describer.loaded(metadata[ahead.CODE]) if metadata.get(ahead.CODE) is not None else {}
        if segment.part != "load" and compile.outcome in ("compiled", "cache_hit"):
            compile.outcome = "cache_hit" if is_loaded(compile) else "compiled"
        args["outcome"] = compile.outcome
        if compile.failures:
            args |= {"guard_failures": compile.failures, "guarded": compile.guarded}
        if compile.caches:
            args["caches"] = self._cache_rows(compile)
        later = None
        if compile.program is not None and compile.outcome in ("compiled", "cache_hit"):
            args["program"] = compile.program
            later = partial(self._found_later, compile.function, compile.written)
        if words is not None:
            args["error"] = words
        return args, later

    def _found_later(self, function: str, written: programs.Written) -> Args:
        """On coldstep's own thread: see `coldstep.events.End.later`."""
        fails = f"no loop was looked for in {function}"
        with contained(lambda error: self._sink.note(f"{fails}: {first_line(error)}")):
            return {"unrolled": unrolled(programs.of_users(written, self._describer.places.is_users))}
        return {}

    def _tell_limit(self) -> None:
        """Tell of a limit that was reached on another thread than this one, where it is another."""
        of, here = self._limited, limits.recompile_limit()
        if of is None or here is None or of.thread == threading.get_ident() or of.limit >= here:
            return
        text = (
            f"{of.function} compiles on a thread where recompile_limit is {of.limit}, and not {here} as on the main one"
        )
        self._sink.emit(Finding(now(), "thread_limit", "warning", text, "torch", of.compile, location=of.begins))

    def _made(self, compile: Compile, metadata: Mapping[str, Any], error: BaseException | None) -> Args:
        """What is known of a frame only when Dynamo is done with it."""
        args: Args = {}
        if compile.outcome == "failed" and error is not None:
            reason = None if breaks.of_a_backend(error) else breaks.break_reason(text_of(error))
            if reason is not None and reason.stack:
                breaks.complete_stack(reason)
                args["failure"] = self._about(compile, reason)
        elif compile.outcome == "skipped" and (why := frames.given_up(error)) is not None:
            args["given_up"] = first_lines(why)
        elif compile.outcome == "compiled" and (frame := frames.compiling_frame()) is not None:
            if (dynamic := self._describer.dynamic(frame)) is not None:
                args["dynamic"] = dynamic or NOTHING
            if (static := frames.is_static(frame)) is not None:
                args["static"] = static
            if (sources := os.environ.get("TORCH_COMPILE_DYNAMIC_SOURCES")) and _SOURCES.fullmatch(sources):
                args["sources"] = sources
        if isinstance(operations := metadata.get("graph_op_count"), int):
            args["operations"] = {"fx": operations}
        limit, before = limits.recompile_limit(), metadata.get("cache_size")
        if limit is not None and isinstance(before, int):
            args["room"] = max(0, limit - before - 1)
        return args

    def _complete_caches(self, compile: Compile, metadata: Mapping[str, Any]) -> None:
        """What no instant told: graphs that came along with an AOTAutograd hit, and caches that are off."""
        answered = {layer for layer, _ in compile.states()}
        if caches.FX_GRAPH not in answered and caches.loaded_graphs(metadata):
            compile.add_cache({"layer": caches.FX_GRAPH, "state": "hit"})
        if compile.inductor:
            for layer in (caches.FX_GRAPH, caches.AOT_AUTOGRAD):
                if layer not in answered and caches.switch(layer):
                    compile.add_cache({"layer": layer, "state": "off"})

    def _cache_rows(self, compile: Compile) -> list[Args]:
        """What the caches said, what they stored so far, and the C++ kernels."""
        rows: list[Args] = []
        module_ns = max(0, compile.module_ns)
        for row in compile.caches:
            complete = dict(row)
            if row["layer"] == caches.FX_GRAPH and module_ns:
                complete["load_ns" if row["state"] == "hit" else "self_ns"] = module_ns
                module_ns = 0
            if row["state"] in ("miss", "guard_miss", "unreadable"):
                complete |= self._stored(row)
            elif row["state"] == "off":
                complete |= {"written": False, "why": "disabled", "why_text": caches.switch(row["layer"])}
            rows.append(complete)
        if compile.kernels:
            count, hits = len(compile.kernels), sum(compile.kernels)
            built: Args = {"state": "hit"} if hits == count else {"state": "miss", "written": True}
            rows.append({"layer": caches.CPP, "count": count, "hits": hits, **built})
        return rows

    def _stored(self, row: Args) -> Args:
        writes = self._spans.writes
        stored = writes.stored(row.get("key")) if writes is not None else None
        if stored is None and row["layer"] == caches.AOT_AUTOGRAD and writes is not None and writes.sees_autograd:
            # said when the forward is done; the backward's end, where there is one, says it anew
            return caches.NO_BACKWARD
        return stored or {}

    # --- graph breaks -----------------------------------------------------------------------------------------

    def _artifact(self, name: str, payload: str) -> None:
        segment = self._spans.current()
        if name == artifacts.RECOMPILE_REASONS and names.TOLD.unseen in self._missing:
            segment = None  # the current one is at most of a compile around this
            if (frame := frames.compiling_frame()) is not None:
                self._early.of, self._early.reasons = frame.numbers, artifacts.recompile_reasons(payload)
        if segment is None:
            return
        if name in artifacts.IR_EVENTS:
            self._sink.keep_ir(segment.compile.id, artifacts.IR_EVENTS[name], lambda: payload)
        elif name == artifacts.RECOMPILE_REASONS:
            self._failed(segment.compile, artifacts.recompile_reasons(payload), frames.compiling_frame())
        elif name == artifacts.BREAK_REASON and (reason := breaks.break_reason(payload)) is not None:
            breaks.complete_stack(reason)
            reason.whole_frame = reason.whole_frame or breaks.gives_up_frame()
            if reason.whole_frame and (frame := frames.compiling_frame()) is not None:
                [(_, line, _), *_] = inlined_chain(segment.compile.frame, reason)
                if _is_in_loop(frame.code, line):
                    reason.reason += " (inside a loop, where PyTorch cannot cut the graph in two)"
            self._break(segment.compile, reason)

    def _failed(self, compile: Compile, reasons: Sequence[str], frame: CompilingFrame | None) -> None:
        compile.failures = [text[:WORDS_LIMIT] for text in reasons]
        if frame is not None:
            compile.guarded = self._describer.guarded(frame, compile.failures)

    def _break(self, compile: Compile, reason: BreakReason) -> None:
        if (known := self._breaks.found(compile, reason)) is not None:
            self._sink.emit(GraphBreak(now(), known, compile.id, self._about(compile, reason)))

    def _about(self, compile: Compile, reason: BreakReason) -> Args:
        return about_break(reason, compile.frame[1], lambda file: not self._describer.places.is_users(file))


@slotted
class _Guarded:
    """A collector's segments behind the circuit breaker."""

    open: Any
    close: Any


class _Early(threading.local):
    """Why the variants of a frame did not do, told on this thread before its compile is announced."""

    of: tuple[int, int] | None = None
    """PyTorch's numbers of that compile."""
    reasons: Sequence[str] = ()


class Epochs:
    """Counts the resets of Dynamo, after which its ids begin again."""

    def __init__(self) -> None:
        self._epoch = 0
        self._compiles: dict[int, int] = {}

    def began_before(self, frame: CompilingFrame) -> bool:
        """Whether this code was compiled before the trace: it has been, by its number, and no such compile was seen."""
        return frame.numbers is not None and frame.numbers[1] > 0 and frame.numbers[0] not in self._compiles

    def of(self, numbers: tuple[int, int] | None) -> int:
        """The epoch of a compile by its numbers; those that cannot follow the ones before begin a new one."""
        if numbers is None:
            return self._epoch
        frame_id, number = numbers
        again = number <= self._compiles.get(frame_id, -1)
        if again or (number == 0 and any(known > frame_id for known in self._compiles)):
            self._epoch += 1
            self._compiles.clear()
        self._compiles[frame_id] = number
        return self._epoch


def _is_in_loop(code: CodeType, line: int) -> bool:
    """Whether a line of a function is run again and again by a loop of the same function."""
    steps = list(dis.get_instructions(code))
    offsets = [step.offset for step in steps if step.positions is not None and step.positions.lineno == line]
    jumps = [(step.argval, step.offset) for step in steps if "JUMP_BACKWARD" in step.opname]
    return any(start <= offset <= end for offset in offsets for start, end in jumps)


def of_region(region: programs.Region, compile: Compile) -> Finding | None:
    """What to know of a nested_compile_region: traced once and reused, or traced again, and why; None where there was
    nothing to reuse."""
    name, traced, calls = short(region.code.co_qualname), region.traced, region.traced + region.reused
    if calls == 1:
        return None
    often = f"{name} is a nested_compile_region: of {count(calls, 'call')} in {compile.function}"
    place = location(region.code.co_filename, region.code.co_firstlineno, name)
    if traced == 1:
        text = f"{often}, PyTorch traced the first, and reused that in the others"
        return Finding(now(), "nested_region", "note", text, "torch", compile.id, location=place)
    is_near = traced >= region.limit - _NEAR_LIMIT
    text = f"{often}, PyTorch traced {traced}" + (f", and keeps {region.limit} at most" if is_near else "")
    severity = "warning" if region.refused and (is_near or not region.reused) else "note"
    reasons = list(region.refused)[:_REASONS]
    return Finding(now(), "nested_region", severity, text, "torch", compile.id, reasons, _RETRACED, place)


# --- outcomes -------------------------------------------------------------------------------------------------


def _outcome(metadata: Mapping[str, Any], error: BaseException | None) -> tuple[str, str | None]:
    """How a frame's compile ended, and what it said if that was not well."""
    reason = metadata.get("fail_reason")
    words = first_lines(reason if isinstance(reason, str) else text_of(error)) if error is not None else None
    if limits.is_limit(metadata, error):
        return "limit", words
    if error is not None:
        return ("skipped", None) if frames.falls_back(error) else ("failed", words)
    # an empty graph has no operations; a frame given up has no figures at all
    return ("compiled" if metadata.get("graph_op_count") else "skipped"), None


def is_loaded(compile: Compile) -> bool:
    """Whether all of the backend's work came from disk."""
    layers = caches.FX_GRAPH, caches.AOT_AUTOGRAD
    states = ({state for layer, state in compile.states() if layer == each} for each in layers)
    return next(filter(None, states), None) == {"hit"}
