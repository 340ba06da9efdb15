"""What to change about what collectors found themselves: with code, where the user's line is known."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.expressions import expression
from coldstep.analysis.make_finding import with_remedy
from coldstep.analysis.remedies.edits import in_place, with_callee
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, advice, remedies
from coldstep.model import Finding, Trace

# coldstep: "f compiles on a thread where recompile_limit is 8, and not 64 as on the main one"
_LIMIT = expression(r" and not (\d+) as on the main one$")
_NOT_AGAIN = "PyTorch does not look at it again"
"""Ends what is said of a first call under a mode; of what is no module it comes with its advice."""
_IN_PLACE = Row(
    "A method of the model (generate) calls the model itself, and not what torch.compile returned: compile it in "
    "place, model.compile(), or its forward, model.forward = torch.compile(model.forward).",
    instead="{statement}",
)
_OUTSIDE = Row(
    "Make the first call outside of the mode: under it call the function or module itself, uncompiled.",
    instead="{statement}",
)
_ON_THE_THREAD = Row(
    "PyTorch keeps its settings for each thread: set it again at the start of the function that the thread runs.",
    above="torch._dynamo.config.recompile_limit = {limit}",
)


def reported(trace: Trace) -> Iterator[Finding]:
    """The findings, with what to do; what a program that did not come to its end has not called, it might have."""
    for row in trace.reported:
        if row.kind != "uncompiled" or trace.processes[row.process].ended == "ok":
            yield _with_what_to_do(trace, row)


def _with_what_to_do(trace: Trace, row: Finding) -> Finding:
    if row.advice or row.location is None or row.kind not in ("uncompiled", "thread_limit"):
        return with_remedy(row)
    place = Place(row.location)
    id_ = f"torch.{row.kind}:{row.location.file}:{row.location.line}"
    if row.kind == "thread_limit":
        match = _LIMIT.search(row.text)
        row.remedies = remedies(_ON_THE_THREAD, Case(id_, {"limit": match[1] if match else ""}, place))
    else:
        line = trace.code.get((row.location.file, row.location.line), "")
        chosen, statement = _IN_PLACE, in_place(line)
        if row.text.endswith(_NOT_AGAIN):
            chosen, statement = _OUTSIDE, with_callee(line, "_orig_mod")
        row.remedies = remedies(chosen, Case(id_, {"statement": statement}, place))
    row.advice = advice(row.remedies)
    return row
