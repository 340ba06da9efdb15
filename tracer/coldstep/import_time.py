"""When coldstep's own import began, and how long it took: time before the trace that is not the program's own."""

from __future__ import annotations

import time

BEGAN_NS = time.monotonic_ns()
took_ns = 0


def ended() -> None:
    """The package has been imported."""
    global took_ns
    took_ns = time.monotonic_ns() - BEGAN_NS
