"""Sees Keras models that were compiled and are then called themselves: Keras compiles its loops, and no such call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.clock import now
from coldstep.events import Args, Finding
from coldstep.places import Places, location_of
from coldstep_collectors.tensorflow._private import keras_models as private

_LEAST = 5
"""Calls from one line: fewer are worth no word."""
_TEXT = (
    "{name}.compile() is for fit, evaluate, predict and the like: {name} runs operation by operation where the program "
    "calls it itself, as in line {line} of {file}"
)


@slotted
class _Model:
    """A model that was compiled."""

    place: Args
    """The user's line that compiled it."""
    calls: dict[tuple[int, int], int]
    """By code and instruction, how often it was called from there."""


class DirectCalls:
    """Counts the direct calls of each compiled model, until one line has made enough; `emit` gets the finding."""

    def __init__(self, tensorflow: Any, places: Places, emit: Callable[[Finding], None]) -> None:
        self._inside: Callable[[], bool] = getattr(tensorflow, "inside_function", lambda: True)
        self._places = places
        self._emit = emit
        self._models: weakref.WeakKeyDictionary[Any, _Model] = weakref.WeakKeyDictionary()

    def compiled(self, model: Any, frame: FrameType) -> None:
        """A model was compiled, by the user's own line."""
        if self._places.is_users(frame.f_code.co_filename):
            self._models[model] = _Model(location_of(frame), {})

    def called(self, model: Any, frame: FrameType) -> None:
        """A model is called; by the user's own line, and not while something is traced, it counts."""
        known = self._models.get(model)
        if known is None or self._inside() or not self._places.is_users(frame.f_code.co_filename):
            return
        key = id(frame.f_code), frame.f_lasti
        known.calls[key] = known.calls.get(key, 0) + 1
        if known.calls[key] < _LEAST:
            return
        del self._models[model]
        if private.runs_eagerly(model):
            at = location_of(frame)
            text = _TEXT.format(name=type(model).__name__, line=at["line"], file=str(at["file"]).rpartition("/")[2])
            self._emit(Finding(now(), "uncompiled", "note", text, "tensorflow", location=known.place))
