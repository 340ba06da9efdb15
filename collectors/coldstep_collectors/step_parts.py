"""What a PyTorch step holds on to, and the same step made of copies of that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any


def taken_apart(fn: Callable[..., Any]) -> tuple[list[Any], Callable[[list[Any]], Callable[..., Any]]]:
    """What a step holds on to, and how to make the same step of copies of that."""
    torch = sys.modules["torch"]
    if isinstance(fn, partial):
        inner, rebuilt = taken_apart(fn.func)
        return (
            [inner, fn.args, fn.keywords],
            lambda parts: partial(rebuilt(parts[0]), *parts[1], **parts[2]),
        )
    if isinstance(fn, MethodType):
        return [fn.__self__], lambda parts: MethodType(fn.__func__, parts[0])
    if not isinstance(fn, FunctionType):
        return [fn], lambda parts: parts[0]
    cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    names = [
        name
        for name in fn.__code__.co_names
        if isinstance(fn.__globals__.get(name), (torch.nn.Module, torch.optim.Optimizer, torch.Tensor))
    ]

    def rebuilt_function(parts: list[Any]) -> Callable[..., Any]:
        values, found = parts
        made = FunctionType(
            fn.__code__,
            fn.__globals__ | dict(zip(names, found, strict=True)),
            fn.__name__,
            fn.__defaults__,
            tuple(map(CellType, values)),
        )
        made.__kwdefaults__ = fn.__kwdefaults__
        return made

    return [cells, [fn.__globals__[name] for name in names]], rebuilt_function


def objects(torch: Any, values: Any) -> Iterator[Any]:
    """The modules, optimizers and tensors in some containers."""
    kinds = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)
    yield from (leaf for leaf in torch.utils._pytree.tree_leaves(list(values)) if isinstance(leaf, kinds))
