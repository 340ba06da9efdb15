"""What a training step will hold, from its compiler or from tensors without contents: whichever framework it is in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from coldstep.fit import Fit
from coldstep_collectors.step_parts import reached


def would_fit(fn: Callable[..., Any], args: tuple[Any, ...], memory: int | None) -> Fit:
    """See `coldstep.would_fit`. Imports no framework that the program has not imported."""
    stack = _stack(fn, args)
    found: Fit = import_module(f"coldstep_collectors.fits_{stack}").fit(fn, args, memory)
    return found


def _stack(fn: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Whose tensors the step works on. Raises ValueError where that cannot be told."""
    torch, jax, tensorflow = (sys.modules.get(name) for name in ("torch", "jax", "tensorflow"))
    found = list(reached([fn, args]))
    kinds = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer) if torch is not None else ()
    of_torch = [value for value in found if isinstance(value, kinds)]
    if torch is not None and of_torch:
        if any(isinstance(value, torch.Tensor) and value.device.type == "xla" for value in of_torch):
            return "torch_xla"
        return "torch"
    of_tensorflow = tensorflow is not None and any(isinstance(value, tensorflow.Module) for value in found)
    if jax is not None and not of_tensorflow and (hasattr(fn, "lower") or any(map(_is_typed, found))):
        return "jax"
    raise ValueError(
        "neither arrays of JAX nor tensors, modules or optimizers of PyTorch are among what fn is given or closes over"
    )


def _is_typed(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")
