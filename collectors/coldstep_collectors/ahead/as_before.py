"""Puts back everything that a trial run of a step changes: the objects it reaches by name, and the random states.

Effects outside the process (a file, printed text) stay.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from coldstep_collectors.ahead.step_parts import reached
from coldstep_collectors.values import held


@contextmanager
def random_states() -> Iterator[None]:
    """Keep Python's and NumPy's global random states as they are."""
    numpy = sys.modules.get("numpy.random")
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        if numpy is not None:
            stack.callback(numpy.set_state, numpy.get_state())
        yield


@contextmanager
def as_before(values: Sequence[Any]) -> Iterator[None]:
    """Keep those, and all that functions and objects among `values` reach (containers, attributes, globals that they
    name, variables that they close over), with the parts that they have."""
    seen: set[int] = set()
    with random_states(), ExitStack() as stack:
        for value in reached(values):
            if id(value) not in seen:
                seen.add(id(value))
                for undo in _undoing(value):
                    stack.callback(undo)
        yield


def _undoing(value: Any) -> Iterator[Callable[[], object]]:
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, (list, deque)):
        yield partial(_refill, value, list(value), value.extend)
    elif isinstance(value, (dict, set)):
        yield partial(_refill, value, value.copy(), value.update)
    elif isinstance(value, FunctionType):
        names = value.__globals__
        yield partial(_rebind, names, {name: names[name] for name in value.__code__.co_names if name in names})
        yield from (partial(_reset, cell, *_contents(cell)) for cell in value.__closure__ or ())
    elif isinstance(own := held(value), dict) and not isinstance(value, type):
        yield partial(_refill, own, own.copy(), own.update)


def _refill(container: Any, parts: Any, fill: Callable[[Any], object]) -> None:
    if not _is_same(container, parts):
        container.clear()
        fill(parts)


def _is_same(container: Any, parts: Any) -> bool:
    if len(container) != len(parts):
        return False
    pairs = [(container, parts), *([(container.values(), parts.values())] if isinstance(parts, dict) else [])]
    return all(one is other for now, then in pairs for one, other in zip(now, then, strict=True))


def _rebind(names: dict[str, Any], before: dict[str, Any]) -> None:
    for name, value in before.items():
        if names.get(name) is not value:
            names[name] = value


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _reset(cell: CellType, *contents: Any) -> None:
    if contents:
        cell.cell_contents = contents[0]
    elif _contents(cell):
        del cell.cell_contents
