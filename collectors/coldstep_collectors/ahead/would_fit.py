"""What a training step will hold, from its compiler or from tensors without contents: whichever framework it is in."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from coldstep.ahead.fit import Fit
from coldstep_collectors.ahead.as_before import as_before
from coldstep_collectors.ahead.stack_of import stack_of

_MODULES = {"jax": "fits_jax", "dynamo": "fits_torch", "torch_xla": "fits_torch_xla"}


def would_fit(fn: Callable[..., Any], args: tuple[Any, ...], memory: int | None) -> Fit:
    """See `coldstep.would_fit`. Imports no framework that the program has not imported."""
    module = _MODULES.get(stack_of(fn, args) or "")
    if module is None:
        raise ValueError(
            "neither arrays of JAX nor tensors, modules or optimizers of PyTorch are among what fn is given or closes "
            "over"
        )
    with as_before([fn, *args]):
        found: Fit = import_module(f"coldstep_collectors.{module}").fit(fn, args, memory)
    return found
