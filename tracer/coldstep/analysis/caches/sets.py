"""Programs that differ from process to process in nothing but the order of a Python set of strings."""

from __future__ import annotations

from coldstep._util import python_text
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, remedies
from coldstep.model import Compile, Remedy, Trace

_SORTED = Row(
    "{name} is a set, and Python goes through the strings of one in another order in each process: each compiles "
    "another program. Sort it where it is read, sorted({name}), or give all processes one PYTHONHASHSEED.",
    environment={"PYTHONHASHSEED": "0"},
)


def in_one_order(trace: Trace, row: Compile) -> list[Remedy]:
    """What to do where another process compiled the same function for the same, but for such an order."""
    own = trace.details[row.id].signature
    for other in trace.compiles:
        its = trace.details[other.id].signature
        if other.process == row.process or other.key != row.key or its.inputs != own.inputs:
            continue
        differing = [key for key in {*own.context, *its.context} if own.context.get(key) != its.context.get(key)]
        if differing and all(_is_one_set(own.context.get(key, ""), its.context.get(key, "")) for key in differing):
            name = min(differing).rpartition(" ")[2]
            return remedies(_SORTED, Case(f"cache.set_order:{name}", {"name": name}))
    return []


def _is_one_set(one: str, other: str) -> bool:
    try:
        sides = [python_text.literal(text) for text in (one, other)]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return all(isinstance(side, set) for side in sides) and sides[0] == sides[1]
