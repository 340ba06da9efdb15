"""Looks ahead in PyTorch when the first step is over: attributes that it made, and an optimizer's state, with which
what it compiled takes no further call.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.collector import AheadSink, Foreseen
from coldstep.signature import Change
from coldstep_collectors.torch._private import frames
from coldstep_collectors.torch._private.frames import CompilingFrame
from coldstep_collectors.torch.describe import Describer


@slotted
class _First:
    """A frame that was compiled in the first step, and the objects among its variables; none is kept alive."""

    id: str
    framework_id: str
    code: weakref.ref[CodeType]
    module: str
    values: dict[str, weakref.ref[Any]]


class Prospects:
    """What the collector `dynamo` knows of the step to come."""

    def __init__(self, torch: Any, sink: AheadSink, describer: Describer) -> None:
        self._torch, self._sink, self._describer = torch, sink, describer
        self._first: dict[tuple[int, ...], _First] = {}
        sink.on_first_mark(self._first.clear)

    def compiled(self, compile: str, framework_id: str, frame: CompilingFrame) -> None:
        """The compile of a frame begins."""
        if self._sink.in_first_step():
            values = dict(self._objects(frame.values))
            ids = (id(frame.values[name]) for name in values)
            module = str(frame.globals.get("__name__"))
            self._first[id(frame.code), *ids] = _First(compile, framework_id, weakref.ref(frame.code), module, values)

    def ahead(self, *_: object) -> list[Foreseen]:
        """The functions that take no call with the same objects any more, by the objects made since."""
        first = list(self._first.values())
        self._first.clear()
        return [foreseen for each in first if (foreseen := self._next(each)) is not None]

    def _objects(self, values: Mapping[str, Any]) -> Iterator[tuple[str, weakref.ref[Any]]]:
        """A frame's variables that the next call has, too: no tensors, and no functions."""
        for name, value in values.items():
            if not isinstance(value, (self._torch.Tensor, FunctionType, MethodType, ModuleType, type)):
                try:
                    yield name, weakref.ref(value)
                except TypeError:  # a number, a plain container
                    continue

    def _next(self, first: _First) -> Foreseen | None:
        code = first.code()
        values = {name: value for name, reference in first.values.items() if (value := reference()) is not None}
        failures = frames.failures(code, values) if code is not None else None
        if code is None or not failures:
            return None
        from coldstep.analysis.rules.dynamo import read  # here, as most steps leave everything as it was

        failures = [f"{first.framework_id}: {text}" for text in failures]
        outside = vars(sys.modules.get(first.module, ModuleType("")))
        frame = CompilingFrame(code, values, None, None, None, outside)
        guarded = self._describer.guarded(frame, failures)
        change = read(failures[0], guarded).change()
        if change is None or not _is_made(change):
            return None
        return Foreseen(first.id, {"guard_failures": failures, "guarded": guarded})


def _is_made(change: Change) -> bool:
    """Whether something came to be that was not there: another change may be taken back before the next call."""
    of_attributes = change.mechanism in ("type", "module_attribute") and change.before in ("None", "not set")
    return of_attributes or change.mechanism == "optimizer_state"
