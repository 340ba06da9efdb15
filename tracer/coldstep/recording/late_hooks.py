"""Lets nothing attach to the process once a trace ends: what comes too late would stay there for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.001


class Attaching:
    """What attaches on whatever thread, while the trace may end on another. No lock: a fork could copy one held."""

    def __init__(self) -> None:
        self._under_way: list[int] = []
        self._over = False

    def run(self, attach: Callable[[], object]) -> None:
        """Call `attach()`, unless the trace is ending."""
        thread = threading.get_ident()
        self._under_way.append(thread)  # before the look at `_over`: so one of the two threads sees the other
        try:
            if not self._over:
                attach()
        finally:
            self._under_way.remove(thread)

    def end(self) -> bool:
        """Have nothing attach from now on, and wait for those attaching on other threads; whether that has ended."""
        self._over = True
        own, deadline = threading.get_ident(), time.monotonic() + _PATIENCE_S
        while any(thread != own for thread in list(self._under_way)):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True
