"""This process's memory that holds code and is no file's: XLA makes some regions of it for each program on a CPU."""

from __future__ import annotations

# Linux: "7f1c2a400000-7f1c2a404000 r-xp 00000000 00:00 0 ", and nothing after that
_REGION = b" r-xp 00000000 00:00 0 \n"
# Linux: "VmLib:	  617704 kB", of all code that is not the program's own
_SIZES = (b"VmExe:", b"VmLib:")


class ExecutableMemory:
    """How much of it there was at the last look."""

    def __init__(self) -> None:
        self._size: int | None = None
        self._regions = 0

    def grown(self) -> tuple[int, int] | None:
        """How many regions there were at the last look and are now, where they have become more; None where they have
        not, or where that cannot be seen.

        The regions are counted, which takes milliseconds, only where the kernel has another sum of code than before: to
        read that takes 50 µs.
        """
        if (size := _size()) is not None and size == self._size:
            return None
        before, now = self._regions, _regions()
        self._size, self._regions = size, now
        return (before, now) if now > before else None


def _size() -> int | None:
    """The kibibytes of code that are mapped, those of files included; None where the kernel does not say."""
    try:
        with open("/proc/self/status", "rb") as status:
            sizes = [int(line.split()[1]) for line in status if line.startswith(_SIZES)]
    except OSError:
        return None
    return sum(sizes) if len(sizes) == len(_SIZES) else None


def _regions() -> int:
    try:
        with open("/proc/self/maps", "rb") as maps:
            return maps.read().count(_REGION)
    except OSError:
        return 0
