"""The three stacks under one set of names, so that a program is written once and each line of it is the framework's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True, slots=True)
class Stack:
    """What the programs need of a framework; an operation that it lacks is None."""

    name: str
    xp: Any
    """Its functions on arrays."""
    compiled: Callable[..., Any]
    """jax.jit, torch.compile, tf.function."""
    while_: Callable[[Any, int, Any], Any]
    """Apply a function n times to a value, in one operation."""
    scan: Any = None
    """The operation that carries a value (`body(carry, row)`) over the rows of an array: the last value."""
    cond: Any = None
    vmap: Any = None
    softmax: Any = None
    gelu: Any = None


def stack(name: str) -> Stack:
    """A stack by its name: jax, tensorflow, or a backend of torch.compile."""
    return {"jax": _jax, "tensorflow": _tensorflow}.get(name, partial(_torch, name))()


def _jax() -> Stack:
    import jax
    from jax import lax

    def while_(body: Any, n: int, x: Any) -> Any:
        return lax.while_loop(lambda state: state[0] < n, lambda state: (state[0] + 1, body(state[1])), (0, x))[1]

    def scan(body: Any, x: Any, rows: Any) -> Any:
        return lax.scan(lambda x, row: (body(x, row), None), x, rows)[0]

    return Stack("jax", jax.numpy, jax.jit, while_, scan, lax.cond, jax.vmap, jax.nn.softmax, jax.nn.gelu)


def _torch(backend: str) -> Stack:
    import torch
    from torch._higher_order_ops.scan import scan as torch_scan
    from torch._higher_order_ops.while_loop import while_loop

    def while_(body: Any, n: int, x: Any) -> Any:
        return while_loop(lambda at, x: at < n, lambda at, x: (at + 1, body(x)), (torch.tensor(0), x))[1]

    def scan(body: Any, x: Any, rows: Any) -> Any:
        return torch_scan(lambda x, row: (body(x, row), row.sum()), x, rows)[0]

    def cond(is_so: Any, yes: Any, no: Any, x: Any) -> Any:
        return torch.cond(is_so, yes, no, (x,))

    compiled = partial(torch.compile, backend=backend)
    softmax, gelu = partial(torch.softmax, dim=-1), torch.nn.functional.gelu
    return Stack("torch", torch, compiled, while_, scan, cond, torch.vmap, softmax, gelu)


def _tensorflow() -> Stack:
    import tensorflow as tf
    from tensorflow.experimental import numpy

    def while_(body: Any, n: int, x: Any) -> Any:
        return tf.while_loop(lambda at, _: at < n, lambda at, x: (at + 1, body(x)), (0, x))[1]

    return Stack("tensorflow", numpy, tf.function, while_)
