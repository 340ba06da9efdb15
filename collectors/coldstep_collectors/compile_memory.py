"""What compiling leaves in this process's memory: machine code, and what the compiler keeps of its work."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from coldstep._util.slotted import slotted


@slotted
class Left:
    """How much more is resident than before, in bytes; 0 until it is known."""

    bytes: int = 0


@contextmanager
def left(*, on_cpu: bool) -> Iterator[Left]:
    """Measure the growth of resident memory over the block, without free memory that was merely not given back.

    Memory that other threads allocate meanwhile counts, too: nothing shows whose a resident page is. 0 where
    the program is not `on_cpu`: it then lies in another memory than what compiling leaves.
    """
    resident = Left()
    before = _resident() if on_cpu else 0
    yield resident
    if on_cpu:
        resident.bytes = max(0, _resident() - before)


def _resident() -> int:
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
    return int(psutil.Process().memory_info().rss)
