"""The threads of coldstep's own: out of the reach of signals, which are the program's."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

SIGNALS = signal.valid_signals()
"""All; Python makes these objects anew at each call."""
_mask = getattr(signal.pthread_sigmask, "__wrapped__", signal.pthread_sigmask)
"""The same without such an object for each signal that was blocked."""


class OwnThread:
    """A daemon thread called `name` that does `run()`, to which no signal is delivered."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._name, self._do = name, run
        self._over: SimpleQueue[None] = SimpleQueue()
        self._is_over = False
        self._thread: threading.Thread | None = None  # not made before it begins: a fork may need none

    def start(self) -> None:
        """Begin. Raises RuntimeError where no thread can.

        Nor is a signal delivered here meanwhile: a handler that raises in `Thread.start` leaves a thread that Python
        half knows.
        """
        before = _mask(signal.SIG_BLOCK, ())
        try:
            _mask(signal.SIG_BLOCK, SIGNALS)
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        finally:
            _mask(signal.SIG_SETMASK, before)

    @property
    def is_going_on(self) -> bool:
        """Whether it has begun, and has not ended."""
        return self._thread is not None and self._thread.ident is not None and not self._is_over

    def wait(self, within_s: float) -> None:
        """Return when it has ended, or that time is over.

        Not by `Thread.join` alone: a handler that raises in it makes Python take a thread for dead that lives.
        """
        if self.is_going_on:
            with contextlib.suppress(Empty):
                self._over.get(timeout=within_s)
        if self._thread is not None and self._is_over:
            self._thread.join(within_s)

    def _run(self) -> None:
        try:
            self._do()
        finally:
            self._is_over = True
            self._over.put(None)
