"""Why a step of PyTorch's has not settled though nothing compiled in it: its CUDA graphs are recorded only then."""

from __future__ import annotations

from collections import defaultdict

from coldstep.model import Compile, CudaGraph, SettlingCause, Trace

_ONCE = (
    "PyTorch runs a compiled graph once to warm up, records it in the next call, and replays it from then on: let two "
    "steps pass before what you time."
)
_SIZES = (
    "Each size is recorded by itself: pad to a few sizes, or leave such graphs out with "
    "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True."
)
_IN_PLACE = "Keep parameters and buffers where they are: write into them (copy_) instead of replacing them."
_NEW_STEP = (
    "Call torch.compiler.cudagraph_mark_step_begin() before each step, and clone what you keep of an earlier one."
)
_ADVICE = {
    "static input data pointer changed": _IN_PLACE,
    "cudagraph managed tensor data pointer changed": _NEW_STEP,
    "expected dead indices before graph are live": _NEW_STEP,
}
"""By PyTorch's words for what has changed since a recording (`CheckInvariantStatus` in cudagraph_utils.py)."""


def causes(trace: Trace) -> dict[int, list[SettlingCause]]:
    """By interval: each function whose graphs were recorded in it, or warmed up in it and were not compiled in it."""
    compiles = {row.id: row for row in trace.compiles}
    groups: dict[tuple[int, str, str], list[CudaGraph]] = defaultdict(list)
    for graph in trace.cuda_graphs:
        if graph.compile in compiles:
            groups[graph.interval, graph.compile, graph.kind].append(graph)
    seen: dict[tuple[str, str], set[tuple[int, ...]]] = defaultdict(set)
    found: dict[int, list[SettlingCause]] = defaultdict(list)
    for (index, compile_id, kind), graphs in sorted(groups.items(), key=lambda group: group[0][0]):
        interval, earlier = trace.intervals[index], seen[compile_id, kind]
        if kind == "recording" or compile_id not in interval.compiles:
            found[index].append(_cause(interval.step, compiles[compile_id], kind, graphs, earlier))
        earlier.update(tuple(graph.sizes) for graph in graphs)
    return found


def _cause(
    step: int | None, compile_: Compile, kind: str, graphs: list[CudaGraph], earlier: set[tuple[int, ...]]
) -> SettlingCause:
    parts = ", ".join(dict.fromkeys(graph.part for graph in graphs))
    sizes = list(dict.fromkeys(tuple(graph.sizes) for graph in graphs))
    reasons = list(dict.fromkeys(graph.reason for graph in graphs if graph.reason))
    again = " again" if earlier.intersection(sizes) else ""
    what = f"ran{again} to warm up for" if kind == "warm-up" else f"was recorded{again} as"
    text = f"{compile_.function} ({parts}) {what} a CUDA graph in step {step}"
    if known := [" x ".join(map(str, each)) for each in sizes if each]:
        text += f", for size {', '.join(known)}"
    if reasons:
        text += f": {', '.join(reasons)}"
    usual = _SIZES if earlier and not again else _ONCE
    advice = next((_ADVICE[reason] for reason in reasons if reason in _ADVICE), usual)
    return SettlingCause(step, compile_.id, None, text, reasons, advice)
