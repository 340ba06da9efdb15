"""PyTorch's private trees of CUDA graphs: when a compiled graph runs to warm up for its CUDA graph, and is recorded;
and the graphs that PyTorch does without one, in its words.

Read as PyTorch 2.9 and 2.13 have it, and followed there on a CPU, CUDA stood in for; met on a GPU with 2.11.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.errors import contained
from coldstep.events import Finding
from coldstep.places import is_installed, location
from coldstep_collectors.patch import Patch
from coldstep_collectors.torch._private import names

ELSEWHERE = "it was recorded after another graph"
WARM_UP, RECORDING = "warm-up", "recording"
_LOGGERS = ("torch._inductor.cudagraph_utils.__cudagraphs", "torch._inductor.cudagraph_utils.__perf_hints")
_MOST_WHY = 300
SKIPS = "skipping cudagraphs due to "
# PyTorch 2.11: "skipping cudagraphs due to mutated inputs (1 instances). Found from :"
# PyTorch 2.5: "skipping cudagraphs due to skipping cudagraphs due to cpu device (arg1_1). Found from :"
# PyTorch 2.13: "skipping cudagraphs due to disabling cudagraphs due to incompatible op a.b Found from   File"
_WHY = expression(
    r"(?:(?:skipping|disabling) cudagraphs due to )+(?:\[')?(?P<why>[^\n]{1,300}?)(?: \(\d+ instances\))?"
    r"(?:\.? Found from\b|'\]\s*$|\s*$)",
    re.MULTILINE,
)
# PyTorch 2.11: "   File "/repo/train.py", line 5, in decode"
_FROM = expression(
    r'(?:^|Found from)\s*File "(?P<file>[^"\n]{1,999})", line (?P<line>\d{1,9}), in (?P<function>\S{1,200})',
    re.MULTILINE,
)
_STATIC = (
    "A CUDA graph writes only into inputs that stay where they are: keep such a tensor as a buffer of the module, mark "
    "it once before the first call, torch._dynamo.mark_static_address(tensor), or return the new value instead."
)
_ON_THE_DEVICE = "A CUDA graph holds work of one GPU alone: move what lies on the CPU to the GPU before the call."
_APART = "Take what the reason names out of the function, or compile it apart from the rest."
_SKIPPED_BY_OPTION = (
    "The option torch._inductor.config.triton.cudagraph_skip_dynamic_graphs leaves out graphs of sizes that change: "
    "keep these fixed, or set the option to False."
)
_ADVICE = {
    "mutated inputs": _STATIC, "input mutation": _STATIC, "cpu device": _ON_THE_DEVICE,
    "graph with symbolic shapes": _SKIPPED_BY_OPTION,
    # a setting is the reason, and nothing in the function
    "cpp-wrapper": "", "cudagraph capture requires": "", "bisector": "",
}  # fmt: skip
"""By how PyTorch's reason begins."""


@slotted
class Run:
    """A run of a compiled graph that is not the replay of its CUDA graph."""

    framework_id: str | None
    """The framework's own id ("0/1") of the compile that the graph is of; backend="cudagraphs" gives it none."""
    part: str
    """forward or backward"""
    sizes: list[int]
    """The sizes and integers that the graph leaves open, as they are now: each gets a CUDA graph of its own."""
    reason: str | None
    """Why its earlier recording could not be replayed, mostly in PyTorch's words; None where there was none."""


def watch(begin: Callable[..., Any], end: Callable[[Any], None]) -> list[Patch]:
    """Call `begin(kind, …)`, whose arguments `describe` takes, and `end(what it returned)` around each such run, never
    around a replay; there is none where this version of PyTorch keeps its CUDA graphs otherwise."""
    form = names.CUDA_GRAPH_RUNS.form()
    if form is None or names.CUDA_GRAPH_IDS.form() is None:
        return []
    manager = form.find()
    return [
        Patch(manager, name, _watched(vars(manager)[name], kind, begin, end))
        for name, kind in zip(form.has, (WARM_UP, RECORDING), strict=True)
    ]


def _watched(
    run: Callable[..., Any], kind: str, begin: Callable[..., Any], end: Callable[[Any], None]
) -> Callable[..., Any]:
    def watched(self: Any, new_inputs: Any, function_id: Any) -> Any:
        token = begin(kind, self, new_inputs, function_id)
        try:
            return run(self, new_inputs, function_id)
        finally:
            end(token)

    return watched


def on_skips(heard: Callable[[str], None]) -> Callable[[], None]:
    """Call `heard(words)` for each graph that runs without a CUDA graph though one was asked for. By filters: PyTorch
    takes handlers of others away from its loggers."""

    def look(record: logging.LogRecord) -> bool:
        if str(record.msg).startswith(SKIPS):
            heard(str(record.msg))
        return True

    loggers = [*map(logging.getLogger, _LOGGERS)]
    for each in loggers:
        each.addFilter(look)

    def undo() -> None:
        for each in loggers:
            each.removeFilter(look)

    return undo


def without_a_cuda_graph(words: str, ns: int) -> Finding:
    """The finding that PyTorch's words come to. Of the code that they name it is at the user's innermost line."""
    first, match = words.removeprefix(SKIPS).partition("\n")[0], _WHY.match(words)
    why = match["why"].replace("', '", ", ") if match is not None else f"{first[:_MOST_WHY]}…"
    places = [(at["file"], int(at["line"]), at["function"]) for at in _FROM.finditer(words)]
    at = next((place for place in reversed(places) if not is_installed(place[0])), places[-1] if places else None)
    text = f"PyTorch replays no CUDA graph{f' in {at[2]}' if at is not None else ''}: {why}"
    advice = next((each for begin, each in _ADVICE.items() if why.startswith(begin)), _APART)
    place = location(*at) if at is not None else None
    return Finding(ns, "uncompiled", "warning", text, "torch", advice=advice, location=place)


def describe(kind: str, manager: Any, inputs: Any, function_id: Any) -> Run:
    """The graph that is about to run, as `watch` announces it."""
    modes, compile_ids = names.CUDA_GRAPH_IDS.attributes(manager)
    compile_id = compile_ids[function_id]
    known_as = str(compile_id) if compile_id is not None else None
    part = "backward" if modes[function_id].name == "BACKWARD" else "forward"
    reason = _reason(manager, inputs, function_id) if kind == RECORDING else None
    return Run(known_as, part, [value for value in inputs if type(value) is int], reason)


def _reason(manager: Any, inputs: Any, function_id: Any) -> str | None:
    """What the check says that has just decided against a replay; what it is given, it may take apart."""
    at = manager.current_node
    with contained():
        for node in (manager.roots if at is None else at.children).get(function_id, ()):
            status, _ = node.check_invariants(list(inputs))
            if status.name != "SUCCESS":
                return str(status)
        if _is_in(manager.roots, function_id):
            return ELSEWHERE
    return None


def _is_in(nodes: Any, function_id: Any) -> bool:
    """Whether a function was recorded anywhere in a tree, as the child of whatever ran before it."""
    return bool(nodes.get(function_id)) or any(
        _is_in(node.children, function_id) for alike in nodes.values() for node in alike
    )
