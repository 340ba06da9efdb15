"""What a JAX program saves for its backward, and the gradients that it makes: read from its jaxpr's stacks of names.

Written for JAX 0.10: an operation of a backward has `transpose(` in the stack of names that `grad` leaves in its source
information; one without such a stack is of the forward, or of the update.
"""

from __future__ import annotations

import math
from typing import Any

from coldstep._util.slotted import slotted

_BACKWARD = "transpose("


@slotted
class Dataflow:
    """In bytes, as the program is written."""

    saved_bytes: int
    """What the forward computes and the backward reads."""
    gradient_bytes: int
    """What the backward computes and the update reads, or the step returns."""


def of(closed: Any) -> Dataflow | None:
    """Of a step's program; None where it has no backward, or its operations cannot be seen."""
    try:
        return _read(_step(closed.jaxpr))
    except AttributeError:
        return None


def _step(jaxpr: Any) -> Any:
    """The program itself, behind jitted functions that are all of it."""
    while len(jaxpr.eqns) == 1 and hasattr(inner := jaxpr.eqns[0].params.get("jaxpr"), "jaxpr"):
        jaxpr = inner.jaxpr
    return jaxpr


def _read(jaxpr: Any) -> Dataflow | None:
    made: dict[Any, bool] = {}  # by variable: whether the backward makes it
    saved: dict[Any, int] = {}
    gradients: dict[Any, int] = {}
    for equation in jaxpr.eqns:
        backward = _BACKWARD in str(equation.source_info.name_stack)
        for variable in equation.invars:
            if hasattr(variable, "val"):  # a literal
                continue
            if backward and made.get(variable) is False:
                saved[variable] = bytes_of(variable.aval)
            elif not backward and made.get(variable):
                gradients[variable] = bytes_of(variable.aval)
        for variable in equation.outvars:
            made[variable] = backward
    for variable in jaxpr.outvars:
        if not hasattr(variable, "val") and made.get(variable):
            gradients[variable] = bytes_of(variable.aval)
    if not any(made.values()):
        return None
    return Dataflow(sum(saved.values()), sum(gradients.values()))


def bytes_of(array: Any) -> int:
    """What an array of this type and shape takes."""
    return int(array.dtype.itemsize * math.prod(array.shape))
