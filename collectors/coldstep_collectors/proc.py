"""Linux's counts of this process and of this thread."""

from __future__ import annotations

import resource
from functools import cache
from io import FileIO

_MOST_BYTES = 1 << 12
_BLOCK_BYTES = 512


def read_bytes() -> int | None:
    """What the process has had read from disks, pages of mapped files included; None where that is not shown."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock * _BLOCK_BYTES if _counts_reads() else None


@cache
def _counts_reads() -> bool:
    # a kernel that does not count shows 0 blocks; its file takes fifty times as long to read as they do
    return b"read_bytes:" in _read("/proc/self/io")


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
