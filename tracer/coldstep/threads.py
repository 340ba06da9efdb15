"""Starts the threads of coldstep's own: out of the reach of signals, which are the program's."""

from __future__ import annotations

import signal
import threading


def start(thread: threading.Thread) -> None:
    """Start `thread`, with no signal delivered to it. Raises RuntimeError where no thread can begin.

    Nor is one delivered here meanwhile: a handler that raises in `Thread.start` leaves a thread that Python half knows.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
