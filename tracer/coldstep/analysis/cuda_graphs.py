"""Why a step of PyTorch's has not settled though nothing compiled in it: its CUDA graphs are recorded only then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from coldstep._util.figures import listed
from coldstep._util.slotted import field, slotted
from coldstep.analysis.make_finding import About, finding
from coldstep.model import Compile, CudaGraph, Finding, Interval, SettlingCause, Severity, Trace
from coldstep.rows.intervals import Steps, alone

_OFTEN_TIMES = 3  # from here on they are a finding of their own
_MAX_NUMBERS = 8  # that are listed
_UNKNOWN = "A graph that was compiled unseen"

_ONCE = (
    "PyTorch runs a compiled graph once to warm up, records it in the next call, and replays it from then on: let two "
    "steps pass before what you time."
)
_NUMBERS = (
    "Each number that the graph leaves open, a size or an integer, is recorded by itself: pad to a few sizes, pass "
    "integers as tensors, or leave such graphs out with torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = "
    "True."
)
_IN_PLACE = "Keep parameters, buffers and caches where they are: write into them (copy_) instead of replacing them."
_NEW_STEP = (
    "Call torch.compiler.cudagraph_mark_step_begin() before each step, and clone what you keep of an earlier one."
)
_ORDER = "Each order in which compiled functions are called is recorded by itself: keep to one, or to a few."
_ADVICE = {
    "static input data pointer changed": _IN_PLACE,
    "cudagraph managed tensor data pointer changed": _NEW_STEP,
    "expected dead indices before graph are live": _NEW_STEP,
    "it was recorded after another graph": _ORDER,
}
"""By what has changed since a recording: PyTorch's words (`CheckInvariantStatus`), but the last."""


@slotted
class Story:
    """What happened to the graphs of one compile, for one reason, as often as it did."""

    compile: Compile | None
    kind: str  # warm-up | recording
    again: bool
    """Whether the same part had come so far before, for the same numbers."""
    reason: str | None
    graphs: list[CudaGraph] = field(default_factory=list)

    def told(self, steps: Iterable[Interval]) -> tuple[str, list[CudaGraph]]:
        """In words, of these steps; and the graphs that it was."""
        ordinals = {step.index: step.step for step in steps}
        graphs = [graph for graph in self.graphs if graph.interval in ordinals]
        parts = ", ".join(dict.fromkeys(graph.part for graph in graphs))
        at = list(dict.fromkeys(ordinals[graph.interval] for graph in graphs))
        where = f"step {at[0]}" if len(at) == 1 else f"{len(at)} steps, {at[0]} to {at[-1]}"
        again = " again" if self.again else ""
        what = f"ran{again} to warm up for" if self.kind == "warm-up" else f"was recorded{again} as"
        text = f"{self.compile.function if self.compile else _UNKNOWN} ({parts}) {what} a CUDA graph in {where}"
        # a backward has its forward's numbers
        forwards = [graph for graph in graphs if graph.part == "forward"] or graphs
        if numbers := [_several(graph.sizes) for graph in forwards if graph.sizes]:
            text += f", for {listed(numbers, _MAX_NUMBERS)}"
        return f"{text}: {self.reason}" if self.reason else text, graphs

    @property
    def advice(self) -> str:
        """What to change."""
        if self.reason in _ADVICE:
            return _ADVICE[self.reason]
        return _NEW_STEP if self.again else _NUMBERS if any(graph.sizes for graph in self.graphs) else _ONCE


def stories(trace: Trace) -> list[Story]:
    """All of them, without the warm-ups that are the first execution of a program compiled just before."""
    compiles = {row.id: row for row in trace.compiles}
    seen: dict[tuple[str | None, str, str], set[tuple[int, ...]]] = defaultdict(set)
    runs: dict[tuple[int, str | None, str, bool, str | None], list[CudaGraph]] = defaultdict(list)
    for graph in sorted(trace.cuda_graphs, key=lambda graph: graph.interval):
        compile_ = compiles.get(graph.compile or "")
        earlier, numbers = seen[graph.compile, graph.kind, graph.part], tuple(graph.sizes)
        again = graph.reason is not None or (numbers in earlier and compile_ is not None)
        earlier.add(numbers)
        if graph.kind == "recording" or compile_ is None or not _compiled_in(graph, compile_):
            runs[graph.interval, graph.compile, graph.kind, again, graph.reason].append(graph)
    by_key: dict[tuple[object, ...], Story] = {}
    for (interval, compile_id, kind, again, reason), graphs in runs.items():
        parts = frozenset(graph.part for graph in graphs)
        key = trace.intervals[interval].process, compile_id, kind, again, reason, parts
        story = by_key.setdefault(key, Story(compiles.get(compile_id or ""), kind, again, reason))
        story.graphs += graphs
    return list(by_key.values())


def _several(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"({', '.join(map(str, numbers))})"


def _compiled_in(graph: CudaGraph, compile_: Compile) -> bool:
    return any(part.interval == graph.interval and part.part == graph.part for part in compile_.segments)


def causes(rows: Iterable[Story], steps: Steps) -> Iterator[SettlingCause]:
    """What kept steps of one name from settling, the first step aside."""
    later = [step for step in alone(steps) if step.step]
    known = {step.index: step.step for step in later}
    for story in rows:
        if any(graph.interval in known for graph in story.graphs):
            text, graphs = story.told(later)
            compile_id = story.compile.id if story.compile else None
            evidence = [story.reason] if story.reason else []
            yield SettlingCause(known[graphs[0].interval], compile_id, None, text, evidence, story.advice)


def findings(trace: Trace) -> Iterator[Finding]:
    """The graphs recorded again; and the functions with graphs recorded, or warmed up for, again and again."""
    steps = [row for row in alone(trace.intervals) if row.kind == "step"]
    for story in stories(trace):
        often = len({graph.interval for graph in story.graphs if trace.intervals[graph.interval].kind == "step"})
        if often >= _OFTEN_TIMES or (often and story.again and story.kind == "recording"):
            yield of_story(story, steps, "repeat_offender", "warning" if often >= _OFTEN_TIMES else "note")


def of_story(story: Story, steps: list[Interval], kind: str, severity: Severity) -> Finding:
    """A story, as far as it is one of these steps, as a finding."""
    text, graphs = story.told(steps)
    at = next(step for step in steps if step.index == graphs[0].interval)
    compile_, cost_ns = story.compile, sum(graph.wall_ns for graph in graphs)
    refs, location = ([compile_.id], compile_.caller or compile_.location) if compile_ else ([], None)
    evidence = [story.reason] if story.reason else []
    about = About(severity=severity, cost_ns=cost_ns, evidence=evidence, advice=story.advice, refs=refs)
    return finding(kind, text, at=at, location=location, **about)
