"""What one trace may take of the process that reads it, which goes on where another one takes more."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import psutil

SECONDS = 60
"""Of processor time, so that what counts as too costly does not depend on what else the machine does."""
BYTES = 1 << 30
"""Of memory beyond what the process has already."""
_NEAR = 1 << 20  # of the limit: what fails there fails for want of memory, whatever it calls it


class TooLong(BaseException):
    """The time is over; no `except Exception` on the way keeps it."""


@contextmanager
def limited() -> Iterator[None]:
    """Around the reading of one trace. Raises TooLong, or MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + BYTES
    before = signal.signal(signal.SIGPROF, _late)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        if psutil.Process().memory_info().vms + _NEAR > most:
            raise MemoryError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _late(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong
