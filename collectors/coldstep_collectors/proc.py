"""Linux's counts of this process and of this thread."""

from __future__ import annotations

from io import FileIO

_MOST_BYTES = 1 << 12


def read_bytes() -> int | None:
    """What the process has had read from disks, pages of mapped files included; None where that is not shown."""
    text = _read("/proc/self/io")
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(b"read_bytes:")), None)


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
