"""Linux's counts of this process and of this thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from io import FileIO
from typing import Any

_MOST_BYTES = 1 << 12
_BLOCK_BYTES = 512


def read_bytes() -> int | None:
    """What the process has had read from disks, pages of mapped files included; None where that is not shown."""
    usage = _usage()
    return int(usage().ru_inblock) * _BLOCK_BYTES if usage is not None else None


@cache
def _usage() -> Callable[[], Any] | None:
    """Asks the kernel what this process has used; None where it does not count reads, and would show none."""
    if b"read_bytes:" not in _read("/proc/self/io"):  # which takes fifty times as long to read
        return None
    import resource  # here: logs are read on systems that have no such module

    return partial(resource.getrusage, resource.RUSAGE_SELF)


def waited_ns() -> int | None:
    """How long the thread has stood in line for a processor so far; None where the kernel does not count it."""
    counts = _read("/proc/thread-self/schedstat").split()
    return int(counts[1]) if len(counts) > 1 else None


def _read(path: str) -> bytes:
    try:
        with FileIO(path) as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""
