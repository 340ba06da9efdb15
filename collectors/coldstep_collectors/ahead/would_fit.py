"""What a training step will hold, from its compiler or from tensors without contents: whichever framework it is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coldstep.ahead.fit import Fit
from coldstep_collectors.ahead.as_before import as_before
from coldstep_collectors.ahead.stack_of import stack_of
from coldstep_collectors.support import BY_STACK


def would_fit(fn: Callable[..., Any], args: tuple[Any, ...], memory: int | None) -> Fit:
    """See `coldstep.would_fit`. Imports no framework that the program has not imported."""
    support = BY_STACK.get(stack_of(fn, args) or "")
    if support is None or not support.fits:
        raise ValueError(
            "neither arrays of JAX nor tensors, modules or optimizers of PyTorch are among what fn is given or closes "
            "over"
        )
    with as_before([fn, *args]):
        fit: Fit = support.module("fit").fit(fn, args, memory)
    return fit
