"""What to change where `jax_disable_jit` is on: the switch, and nothing that it has run operation by operation."""

from __future__ import annotations

from coldstep.analysis.remedies.edits import is_call
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, remedies
from coldstep.model import Finding, Remedy, Trace

_NAME = "jax_disable_jit"
_SWITCHED = Row(
    "Take the switch away (JAX_DISABLE_JIT of the environment, too), or set it only around what needs it, with "
    "jax.disable_jit(): it is for debugging, and is on for all of the program.",
    instead="{statement}",
    changes="rounding",
)


def is_switched_off(trace: Trace, process: int) -> bool:
    """Whether a process has nothing compiled as a whole, whatever is jitted."""
    return any(_is_of(row) and row.process == process for row in trace.reported)


def jitted_again(trace: Trace, row: Finding) -> list[Remedy]:
    """What to do about one of these, which then costs what the operations took."""
    if not _is_of(row):
        return []
    of_process = (each for each in trace.compiles if each.process == row.process)
    programs = [each for each in of_process if (each.origin, each.parent) == ("eager", None)]
    row.cost_ns, row.refs = sum(each.wall_ns for each in programs), [each.id for each in programs]
    at = row.location
    line = trace.code.get((at.file, at.line), "") if at is not None else ""
    statement = f'from jax import config as jax_config\njax_config.update("{_NAME}", False)'
    names = {"statement": statement if _NAME in line and is_call(line, "update") else ""}
    return remedies(_SWITCHED, Case("jax.disable_jit", names, Place(at, line=line) if at is not None else NOWHERE))


def _is_of(row: Finding) -> bool:
    return row.text.startswith(f"{_NAME} is on")
