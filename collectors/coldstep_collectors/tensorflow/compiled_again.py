"""Sees Keras models that are compiled again with nothing new but a learning rate: Keras traces their steps anew."""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.events import Args
from coldstep.places import Places, location_of
from coldstep_collectors.tensorflow._private.keras_models import layout_of, settings_and_rate


@slotted
class _Model:
    """A model that was compiled."""

    settings: tuple[str, float] | None
    """What it was compiled with, and with which rate."""
    again: Args | None = None
    """The user's line that compiled it again, for another rate alone."""


class CompiledAgain:
    """Remembers what each model was compiled with, for as long as it lives."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._models: weakref.WeakKeyDictionary[Any, _Model] = weakref.WeakKeyDictionary()

    def compiled(self, model: Any, frame: FrameType) -> None:
        """A model was compiled, by a line within `frame` or around it."""
        known, after = self._models.get(model), settings_and_rate(model)
        before, caller = known.settings if known is not None else None, self._places.users_frame(frame)
        is_for_rate = before is not None and after is not None and before[0] == after[0] and before[1] != after[1]
        self._models[model] = _Model(after, location_of(caller) if is_for_rate and caller is not None else None)

    def about(self, model: Any) -> Args:
        """For the trace of a model's step: its `layout`, and as `cause_at` the user's line that compiled it the last
        time, where it need not have."""
        layout = layout_of(model)
        try:
            known = self._models.get(model)
        except TypeError:  # of a library that is no model, and cannot be referred to
            known = None
        again = {"cause_at": known.again} if known is not None and known.again is not None else {}
        return {**({"layout": layout} if layout else {}), **again}
