"""What a PyTorch DataLoader takes to begin: its workers, and the first batch."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from coldstep_collectors.outside.around import Around


def watch_loaders(data: Any, around: Around) -> None:
    """Have the time of `iter(loader)` and of the first `next()` count as data; the batches after it pay nothing."""
    real = data.DataLoader.__iter__

    @wraps(real)
    def begun(self: Any) -> Any:
        with around.within("data", sys._getframe(1)) as begin:
            batches = real(self)
        if begin is not None:
            _watch_first(batches, around)
        return batches

    around.put(data.DataLoader, "__iter__", begun)


def _watch_first(batches: Any, around: Around) -> None:
    """Hook `next()` of the class of `batches` until it was called for these."""
    kind = type(batches)
    real = kind.__next__
    its_own = "__next__" in vars(kind)

    @wraps(real)
    def first(self: Any) -> Any:
        if self is not batches:
            return real(self)
        if vars(kind).get("__next__") is first:
            if its_own:
                kind.__next__ = real
            else:
                del kind.__next__
        with around.within("data", sys._getframe(1)):
            return real(self)

    kind.__next__ = first
