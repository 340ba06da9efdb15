"""What to change where a graph broke: by what broke it, and by whose code did."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

from coldstep.model import GraphBreak, Trace

_OPTIMIZER = "torch.optim."
_BY_REASON = (
    (
        r"Tensor\.backward\(\)",
        "Call .backward() outside: compile the model and its loss, and PyTorch compiles their backward with them.",
    ),
    (r"`Optimizer\.zero_grad`", "Call zero_grad() outside the compiled function, before or after it."),
    (r"branch", "Keep the choice on the device: torch.where instead of the branch, or torch.cond."),
    (
        r"\.item\(\)|tolist|capture_scalar_outputs",
        "Keep the value a tensor, and read it after the compiled function has returned; where the graph needs the "
        "number, set torch._dynamo.config.capture_scalar_outputs = True.",
    ),
    (
        r"[Dd]ynamic shape operator|capture_dynamic_output_shape_ops",
        "Replace the operator by one whose result has a fixed shape (a mask, torch.where), or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True.",
    ),
    (
        r"`print`|logging|the builtin `_?warnings\.warn|reorder",
        "Print or log after the compiled function has returned, or let PyTorch put it off: "
        "torch._dynamo.config.reorderable_logging_functions.add(print).",
    ),
    (r"`[^`]*Random\.\w+", "Draw the number with torch (torch.rand), or outside, and pass it in."),
    (
        r"builtin `|C/C\+\+",
        "Call it outside the compiled function; if the graph must hold it, register it as a custom operator "
        "(torch.library.custom_op).",
    ),
)
_BY_KIND = {
    "data_dependent": "Keep the value on the device, and read it after the compiled function has returned.",
    "side_effect": "Move the side effect out of the compiled function.",
    "unsupported_call": "Call it outside the compiled function, or replace it by what torch offers for it.",
    "explicit": "Remove it (torch._dynamo.graph_break, torch.compiler.disable), if it can go.",
    "skipped_frame": "The whole function runs eagerly: take what the reason names out of it.",
    "other": "Take what the reason names out of the compiled function.",
}
_LOOP = (
    "The whole function runs eagerly: make the loop's body a function of its own, or take what breaks out of the loop."
)
_BY_OPTIMIZER = (
    "torch.optim breaks the graph itself in every step() of an optimizer; the update is compiled as a graph of its "
    "own. Leave it so, or call the optimizer outside the compiled function."
)
_BY_LIBRARY = "{library} breaks the graph: call it outside the compiled function, or leave it so."


def advise(trace: Trace) -> None:
    """Give each graph break its advice, those included that a compile failed of."""
    failures = [details.failure for details in trace.details.values() if details.failure is not None]
    for row in [*trace.graph_breaks, *failures]:
        row.advice = _advice(row, trace.libraries.get(row.id))


def below(trace: Trace, id_: str) -> list[str]:
    """The library's line at which a graph broke, or a compile failed of that, as evidence."""
    return [f"below that line: {trace.below[id_]}"] if id_ in trace.below else []


def discarded(trace: Trace) -> dict[str, int]:
    """How long the tracing took, by the id of the graph break, that PyTorch threw away there to begin anew."""
    compiles = {compile_.id: compile_ for compile_ in trace.compiles}
    broken: dict[str, list[str]] = defaultdict(list)
    for row in trace.graph_breaks:
        if row.compile in compiles:
            broken[row.compile].append(row.id)
    found: dict[str, int] = {}
    for compile_id, breaks in broken.items():
        segments = compiles[compile_id].segments
        starts = [segment.start_ns for segment in segments if segment.part in ("forward", "attempt")]
        if len(starts) == len(breaks) + 1:  # each break began one attempt, and nothing else did
            found |= {row: after - before for row, (before, after) in zip(breaks, pairwise(starts), strict=True)}
    return found


def _advice(row: GraphBreak, library: str | None) -> str:
    if library is not None:
        return (_BY_OPTIMIZER if library.startswith(_OPTIMIZER) else _BY_LIBRARY).format(library=library)
    if row.kind == "skipped_frame":
        return _LOOP if "loop" in row.reason else _BY_KIND["skipped_frame"]
    if row.kind == "explicit":
        return _BY_KIND["explicit"]
    return next((advice for words, advice in _BY_REASON if re.search(words, row.reason)), _BY_KIND.get(row.kind, ""))
