"""Two programs beside each other, for `coldstep compare --ir`."""

from __future__ import annotations

import os

from coldstep.model import Trace
from coldstep_viewers.commands.inputs import loaded
from coldstep_viewers.commands.output import fail, or_fail, show
from coldstep_viewers.safe_text import short

IR_SCHEMA = "coldstep-diff-ir/1"


def show_programs(before: str, after: str, wanted: str) -> None:
    """Print what two compiles differ in; each is a trace, with what to take of it behind #."""
    from coldstep.analysis.programs import ir
    from coldstep_viewers.pages.programs import data, side_by_side

    (first, chosen), (second, other) = _chosen(before), _chosen(after)
    old = loaded(first)
    new = old if os.path.abspath(first) == os.path.abspath(second) else loaded(second)
    for path, trace, named in ((first, old, chosen), (second, new, other)):
        if not trace.keeps_programs:
            fail(f"{path} holds no programs: record it with coldstep run --ir, or trace(ir=True)")
        if not ir.named(trace, named):
            fail(f"{path} holds no program of {named}; of these it does: {', '.join(_kept(trace))}")
    with or_fail():
        found = [ir.compare(old, a, new, b) for a, b in ir.pairs(old, new, chosen, other)]
    if not found:
        fail(f"{first}: nothing was compiled twice, so there is nothing to compare; name two compiles behind #")
    head = {"schema": IR_SCHEMA, "before": before, "after": after}
    texts = ("\n".join(side_by_side(pair)) for pair in found)
    show(lambda: head | {"pairs": [data(pair) for pair in found]}, lambda: ["\n\n".join(texts)], wanted)


def _chosen(path: str) -> tuple[str, str | None]:
    """A trace, and the compile named behind it."""
    trace, mark, compile_id = path.rpartition("#")
    return (trace, compile_id) if mark and not os.path.exists(path) else (path, None)


def _kept(trace: Trace) -> list[str]:
    return [
        f"{row.id} ({short(row.function)}, {row.stack})" for row in trace.compiles if trace.details[row.id].programs
    ]
