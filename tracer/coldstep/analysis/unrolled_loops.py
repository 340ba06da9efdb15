"""Programs that hold every turn of a Python loop, and take as much longer to compile."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep.analysis.make_finding import About, of_compile
from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, remedies
from coldstep.analysis.rules.jax import OF_LAYERS
from coldstep.analysis.rules.registry import rules_of
from coldstep.model import Compile, Finding, Trace, Unrolled

_LEAST_NS, _LEAST_OF_LAYERS_NS = 50_000_000, 1_000_000_000
"""Of compiling that the further turns may have taken: less is no loss. Layers are written so for good reasons, too."""

_OF_LAYERS = ", each with inputs of its own"
_ESTIMATED = "an estimate: the time of its compile, by the share of operations that further turns add"


def unrolled_loops(trace: Trace) -> Iterator[Finding]:
    """One finding for each program that is compiled, of the stacks that have a remedy."""
    for compile_ in trace.compiles:
        loop = trace.details[compile_.id].unrolled
        remedy = rules_of(compile_.stack).remedies.get("unrolled")
        if loop is None or compile_.outcome != "compiled" or remedy is None:
            continue
        share = loop.operations / max(1, loop.of)
        cost = round(compile_.wall_ns * share * (1 - 1 / max(1, loop.turns)))
        if cost < (_LEAST_OF_LAYERS_NS if loop.layers else _LEAST_NS):
            continue
        of_jax = compile_.stack == "jax"
        id_ = f"{compile_.stack}.unrolled:{loop.location.file}:{loop.location.line}"
        mended = remedies(OF_LAYERS if of_jax and loop.layers else remedy, _case(trace, compile_, loop, id_))
        text = (
            f"{compile_.function} holds each of {loop.turns} turns of a loop in line {loop.location.line}"
            f"{_OF_LAYERS if loop.layers else ''}: {loop.operations} of its {loop.of} operations"
        )
        about = About(severity="note", cost_ns=cost, evidence=[_ESTIMATED], remedies=mended)
        row = of_compile(trace, compile_, "unrolled", text, **about)
        row.location = loop.location
        yield row


def _case(trace: Trace, compile_: Compile, loop: Unrolled, id_: str) -> Case:
    """The loop, and how it is written as one that the program holds once, where that is the same."""
    write = rules_of(compile_.stack).loop
    block = block_around(trace.blocks, loop.location)
    written = write(block, loop, compile_) if write is not None and block is not None else None
    if written is None:
        return Case(id_, {"loop": ""}, _around(trace, compile_, loop))
    return Case(id_, {"loop": written.code}, Place(written.location, lines=written.lines))


def _around(trace: Trace, compile_: Compile, loop: Unrolled) -> Place:
    """The definition of the function around the loop, where its turns call what can be compiled by itself."""
    at = compile_.location
    line = trace.code.get((at.file, at.line), "") if at is not None else ""
    whole = loop.location.function in (compile_.function, compile_.function.rpartition(".")[2])
    undecorated = at is not None and not trace.code.get((at.file, at.line - 1), "").startswith("@")
    most = 2 * loop.called > loop.operations
    return Place(at, line=line) if line.startswith("def ") and whole and undecorated and most else NOWHERE
