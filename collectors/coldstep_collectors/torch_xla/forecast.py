"""Foretells what torch_xla compiles: a graph for each set of types that a step is called with, and the second step of
an optimizer that makes its state in the first.

What else a step records (values read from elsewhere, work left pending before it) nobody can see before it ran: the
step is taken to record the same in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from itertools import chain
from types import FunctionType, MethodType
from typing import Any

from coldstep import context as forms
from coldstep.ahead.forecast_rows import Call, Foretold, ForetoldCompile, Sizes
from coldstep.events import Args
from coldstep.signature import differences, nearest, signature_of
from coldstep_collectors.torch.describe import parts
from coldstep_collectors.values import attribute, closure, dtype_text, globals_read, held, is_plain, name_of

_NOTE = "the step is taken to record the same in every call, but for its arguments and its optimizer's state"
_NUMBER = "a number differs: torch_xla compiles 0 and 1 in, and takes most others as data"


def foretell(function: Callable[..., Any], calls: Iterable[Call], feed: Mapping[str, str]) -> Foretold:
    """Which of these calls torch_xla will compile."""
    import torch

    if feed:
        raise ValueError("feed is for JAX: what a step returns is not known of torch_xla before it ran")
    forecaster = _Forecaster(torch, function)
    for call in calls:
        forecaster.take(call)
    return forecaster.told


class _Forecaster:
    """Takes the calls one by one."""

    def __init__(self, torch: Any, function: Any) -> None:
        self._torch = torch
        self._parameters = signature(function)
        self.told = Foretold("torch_xla", name_of(function), notes=[_NOTE])
        self._makes_state = any(_makes_state(each) for each in _optimizers(torch, function))
        self._known: dict[tuple[object, ...], int] = {}
        self._about: list[Args] = []

    def take(self, call: Call) -> None:
        """Judge the next call."""
        number = self.told.next_call()
        try:
            arguments = self._parameters.bind(*call.args, **call.kwargs).arguments
        except TypeError as error:
            self.told.leave_open(number, f"the call itself would fail: {error}")
            return
        tensors: dict[str, tuple[int, ...]] = {}
        types: list[tuple[str, str]] = []
        values: list[tuple[str, str]] = []
        for path, part in chain.from_iterable(parts(name, value) for name, value in arguments.items()):
            if isinstance(part, self._torch.Tensor):
                tensors[path] = tuple(part.shape)
                types.append((path, dtype_text(part.dtype)))
            elif not isinstance(part, (list, tuple, dict)):
                values.append((path, repr(part) if is_plain(part) else type(part).__qualname__))
        self.told.sizes.append(Sizes(tensors, (*types, *values)))
        of_tensors = (tuple(types), tuple(sorted(tensors.items())))
        self._judge(number, of_tensors, tuple(values), _about(tensors, dict(types)))

    def _judge(self, number: int, types: tuple[object, ...], values: tuple[tuple[str, str], ...], about: Args) -> None:
        if all(known[:2] != types for known in self._known):
            self._compiles(number, about)
        elif (*types, values) not in self._known:
            self.told.leave_open(number, _NUMBER)
        elif self._makes_state and len(self._known) == 1 == number:
            self.told.compiles.append(ForetoldCompile(number, "optimizer_state"))
        self._known.setdefault((*types, values), number)

    def _compiles(self, number: int, about: Args) -> None:
        row = ForetoldCompile(number)
        if self._about:
            earlier = [signature_of(each) for each in self._about]
            new = signature_of(about)
            row.explain(differences(earlier[nearest(earlier, new)], new)[0])
        self._about.append(about)
        self.told.compiles.append(row)


def _about(tensors: Mapping[str, tuple[int, ...]], types: Mapping[str, str]) -> Args:
    texts = {path: f"{types[path]}[{','.join(map(str, shape))}]" for path, shape in tensors.items()}
    inputs = [{"argument": path, "type": text} for path, text in texts.items()]
    return {"inputs": inputs, "context": {forms.CALL.key(): ""}}


def _optimizers(torch: Any, function: Any) -> Iterator[Any]:
    """The optimizers that a function holds, or is a method of."""
    owned: Iterable[Any] = ()
    if isinstance(function, MethodType):
        owned, function = held(function.__self__).values(), function.__func__
    if isinstance(inner := attribute(function, "__wrapped__", function), FunctionType):
        read = (inner.__globals__.get(name) for name in globals_read(inner.__code__))
        owned = (*owned, *(value for _, value in closure(inner)), *read)
    return (each for each in owned if isinstance(each, torch.optim.Optimizer))


def _makes_state(optimizer: Any) -> bool:
    """Whether an optimizer has no state yet, and will make one in its first step: plain SGD never does."""
    may = type(optimizer).__name__ != "SGD" or any(group.get("momentum") for group in optimizer.param_groups)
    return may and not optimizer.state
