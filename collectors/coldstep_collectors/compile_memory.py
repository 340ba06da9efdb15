"""What compiling leaves in this process's memory: machine code, and what the compiler keeps of its work."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from coldstep.slotted import slotted


@slotted
class Left:
    """How much more is resident than before, in bytes; 0 until it is known."""

    bytes: int = 0


@contextmanager
def left() -> Iterator[Left]:
    """Measure what is resident after the block and was not before it, without what is free and merely not given back.

    What other threads of the program allocate meanwhile counts, too: nothing tells whose a resident page is.
    """
    found, before = Left(), _resident()
    yield found
    found.bytes = max(0, _resident() - before)


def _resident() -> int:
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
    return int(psutil.Process().memory_info().rss)
