"""What a training step holds on to, and the same step made of copies of that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from coldstep.vocabulary import PACKAGES
from coldstep_collectors.values import held

_DEPTH = 4  # of containers in containers, and of functions that call functions
_OTHERS = {"numpy", *PACKAGES}  # who hold nothing of the user's
_NO_OBJECTS = (ModuleType, type, FunctionType, MethodType)

Rebuilt = Callable[[list[Any]], Any]
"""Makes a value of copies of its parts."""


def reached(values: Sequence[Any], depth: int = _DEPTH) -> Iterator[Any]:
    """What a step, and what it is given, hold on to: containers, objects, and functions that it calls."""
    for value in values:
        yield value
        if depth:
            yield from reached(_inside(value), depth - 1)


def taken_apart(fn: Callable[..., Any]) -> tuple[list[Any], Callable[[list[Any]], Callable[..., Any]]]:
    """What a PyTorch step holds on to, and how to make the same step of copies of that."""
    return _function_apart(fn, _DEPTH) if isinstance(fn, FunctionType) else _apart(fn, _DEPTH)


def objects(torch: Any, values: Any) -> Iterator[Any]:
    """The modules, optimizers, tensors and the like in some containers, and in objects there."""
    left, seen = list(values), set[int]()
    while left:
        leaves = torch.utils._pytree.tree_leaves(left)
        left = []
        for leaf in leaves:
            if isinstance(leaf, _kinds(torch)):
                yield leaf
            elif _is_object(leaf) and id(leaf) not in seen:
                seen.add(id(leaf))
                left += held(leaf).values()


def _apart(value: Any, depth: int) -> tuple[list[Any], Rebuilt]:
    if isinstance(value, partial):
        inner, rebuilt = _apart(value.func, depth)
        return [inner, value.args, value.keywords], lambda parts: partial(rebuilt(parts[0]), *parts[1], **parts[2])
    if isinstance(value, MethodType):
        return [value.__self__], lambda parts: MethodType(value.__func__, parts[0])
    if isinstance(value, FunctionType) and depth and not _is_others(value):
        return _function_apart(value, depth - 1)
    return [value], lambda parts: parts[0]


def _function_apart(fn: FunctionType, depth: int) -> tuple[list[Any], Rebuilt]:
    """By the variables that it closes over, and the globals with something of PyTorch's in them."""
    kinds = _kinds(sys.modules["torch"])
    cells = [_apart(cell.cell_contents, depth) if _is_set(cell) else None for cell in fn.__closure__ or ()]
    reads = {
        name: _apart(fn.__globals__[name], depth)
        for name in fn.__code__.co_names
        if any(isinstance(each, kinds) for each in reached([fn.__globals__.get(name)], depth))
    }

    def rebuilt(parts: list[Any]) -> Callable[..., Any]:
        closed, named = parts
        own = {name: make(part) for (name, (_, make)), part in zip(reads.items(), named, strict=True)}
        of_cells = zip(cells, closed, strict=True)
        closure = tuple(CellType(cell[1](part)) if cell else CellType() for cell, part in of_cells)
        made = FunctionType(fn.__code__, fn.__globals__ | own, fn.__name__, fn.__defaults__, closure)
        made.__kwdefaults__ = fn.__kwdefaults__
        return made

    return [[cell[0] if cell else [] for cell in cells], [parts for parts, _ in reads.values()]], rebuilt


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
        if _is_others(value):
            return []
        names = [value.__globals__.get(name) for name in value.__code__.co_names]
        return [*names, *(cell.cell_contents for cell in value.__closure__ or () if _is_set(cell))]
    return list(held(value).values()) if _is_object(value) else []


def _kinds(torch: Any) -> tuple[type, ...]:
    """What a step changes, and what it is made of."""
    scaler = getattr(torch.amp, "GradScaler", None)  # PyTorch 2.3
    changed = (torch.optim.lr_scheduler.LRScheduler, *([scaler] if scaler is not None else []))
    return torch.nn.Module, torch.optim.Optimizer, torch.Tensor, *changed


def _is_object(value: Any) -> bool:
    """Whether it is an object of a class of the user's own, or of a trainer's."""
    return bool(held(value)) and not isinstance(value, _NO_OBJECTS) and not _is_others(type(value))


def _is_others(made: Any) -> bool:
    return str(getattr(made, "__module__", "")).partition(".")[0] in _OTHERS


def _is_set(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
