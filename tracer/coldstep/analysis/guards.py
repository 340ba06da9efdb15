"""Reads Dynamo's words on a guard that failed: which value of which argument, and by what mechanism it differed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from coldstep.model import Change

_TENSOR = re.compile(
    r"tensor '(?P<argument>.+?)' (?P<what>size|rank|dtype|stride|requires_grad|device|dispatch key set) mismatch"
)
_MECHANISMS = {
    "size": "shape",
    "rank": "shape",
    "dtype": "dtype",
    "stride": "layout",
    "requires_grad": "requires_grad",
    "device": "device",
}
_SIZE = re.compile(r"(?P<argument>[\w.\[\]'\"]+?)\.size\(\)\[\d+\]")
_EQUALS = re.compile(r"(?P<argument>.+?) == (?P<value>.+)")
_IS_NONE = re.compile(r"(?P<argument>.+?) is (?:not )?None")


@dataclass(slots=True)
class Guard:
    """A failed guard, as far as it could be read."""

    text: str
    mechanism: str | None = None
    argument: str | None = None
    before: str | None = None

    def speaks_of(self, change: Change) -> bool:
        """Whether the guard is about this difference of two signatures."""
        if self.mechanism is None or change.mechanism != self.mechanism:
            return False
        return self.argument is None or change.argument in (None, self.argument)

    def change(self) -> Change | None:
        """The difference as the guard alone tells it, where it is in no signature."""
        return None


def read(text: str) -> Guard:
    """The guard in a line such as "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5"."""
    guard = text.partition(": ")[2] or text
    if match := _TENSOR.match(guard):
        return Guard(guard, _MECHANISMS.get(match["what"]), match["argument"])
    if guard.startswith("GLOBAL_STATE changed: "):
        return Guard(guard, "grad_mode" if "grad_mode" in guard else "autocast" if "autocast" in guard else None)
    source = guard.partition("  # ")[0].strip()
    if source.endswith((".training == True", ".training == False")):
        return Guard(guard, "training_mode")
    if match := _SIZE.search(source):
        return Guard(guard, "shape", match["argument"].removeprefix("L['").removesuffix("']"))
    if match := _IS_NONE.fullmatch(source):
        return Guard(guard, "type", match["argument"])
    if match := _EQUALS.fullmatch(source):
        return Guard(guard, "python_scalar", match["argument"], match["value"])
    return Guard(guard)
