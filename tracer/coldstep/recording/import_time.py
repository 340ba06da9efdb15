"""coldstep's own import: when it began, how long it took. That is time before the trace, and not the program's own.

Meanwhile Python collects no garbage: it would search the program's heap for the objects made here, which stay.
"""

from __future__ import annotations

import gc
import time

BEGAN_NS = time.monotonic_ns()
took_ns = 0
_collects = gc.isenabled()
gc.disable()


def ended() -> None:
    """The package has been imported, or could not be."""
    global took_ns
    took_ns = time.monotonic_ns() - BEGAN_NS
    if _collects:
        gc.enable()
