"""What a training step will hold, from its compiler or from tensors without contents: whichever framework it is in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any

from coldstep.fit import Fit

_DEPTH = 4  # containers in containers among the arguments


def would_fit(fn: Callable[..., Any], args: tuple[Any, ...], memory: int | None) -> Fit:
    """See `coldstep.would_fit`. Imports no framework that the program has not imported."""
    stack = _stack(fn, args)
    found: Fit = import_module(f"coldstep_collectors.fits_{stack}").fit(fn, args, memory)
    return found


def _stack(fn: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Whose tensors the step works on. Raises ValueError where that cannot be told."""
    torch, jax, tensorflow = (sys.modules.get(name) for name in ("torch", "jax", "tensorflow"))
    reached = list(_reached([fn, args], _DEPTH))
    kinds = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer) if torch is not None else ()
    of_torch = [value for value in reached if isinstance(value, kinds)]
    if torch is not None and of_torch:
        if any(isinstance(value, torch.Tensor) and value.device.type == "xla" for value in of_torch):
            return "torch_xla"
        return "torch"
    of_tensorflow = tensorflow is not None and any(isinstance(value, tensorflow.Module) for value in reached)
    if jax is not None and not of_tensorflow and (hasattr(fn, "lower") or any(map(_is_typed, reached))):
        return "jax"
    raise ValueError(
        "neither arrays of JAX nor tensors, modules or optimizers of PyTorch are among what fn is given or closes over"
    )


def _is_typed(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _reached(values: list[Any], depth: int) -> Iterator[Any]:
    """What the step is given, and what it closes over."""
    for value in values:
        yield value
        if depth:
            yield from _reached(_inside(value), depth - 1)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        names = [value.__globals__.get(name) for name in value.__code__.co_names]
        return [*names, *(cell.cell_contents for cell in value.__closure__ or () if _is_set(cell))]
    return []


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # empty
        return False
