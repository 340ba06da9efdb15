"""Linux's figures of a process and of those below it: /proc, read by hand.

psutil gives the same. To import it takes longer than all else that a trace begins with; imported later, on a thread of
ours, a fork of the program's could copy the lock of its import held.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections import defaultdict
from io import FileIO

from coldstep._util.slotted import slotted
from coldstep_collectors.support import SUPPORT

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_MOST_BYTES = 1 << 14
_SAME_S = 2.0  # after which the number of a process that has ended may be another's
_CUT_CHARS = 15  # the kernel keeps no more of a name


@slotted
class Stat:
    """A process, as it is now."""

    pid: int
    parent: int
    name: str
    threads: int
    rss_bytes: int
    cpu_ns: int
    """What it has used, and those below it that it has waited for."""
    own_cpu_ns: int
    """What it has used itself."""
    age_ns: int


def stat(pid: int | str) -> Stat:
    """Of a process, or of "self". Raises OSError where it is gone."""
    return _parsed(_read(f"/proc/{pid}/stat"))


def _parsed(text: bytes) -> Stat:
    head, _, tail = text.rpartition(b")")  # the name, in parentheses, may itself hold spaces and parentheses
    number, _, name = head.partition(b" (")
    fields = tail.split()  # from the third on, as proc(5) counts them
    own_cpu, cpu, started = sum(map(int, fields[11:13])), sum(map(int, fields[11:15])), int(fields[19])
    return Stat(
        pid=int(number),
        parent=int(fields[1]),
        name=name.decode("utf-8", "replace"),
        threads=int(fields[17]),
        rss_bytes=int(fields[21]) * resource.getpagesize(),
        cpu_ns=cpu * _TICK_NS,
        own_cpu_ns=own_cpu * _TICK_NS,
        age_ns=max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started * _TICK_NS),
    )


def children_cpu_ns() -> int:
    """What all children of this process that it has waited for have used, each with those that it had waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)


class Processes:
    """The machine's, each read once: a machine has hundreds, and a read lets the program's thread run in between."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._looked_at = 0.0

    def below(self, pid: int) -> list[Stat]:
        """All processes below one, parents first."""
        self._look()
        children: dict[str, list[str]] = defaultdict(list)
        for entry, parent in self._parents.items():
            children[parent].append(entry)
        rows: list[Stat] = []
        for parent in (above := [str(pid)]):
            for entry in children.get(parent, ()):
                with contextlib.suppress(OSError):  # gone already
                    row = stat(entry)
                    if str(row.parent) == parent:
                        rows.append(row)
                        above.append(entry)
                    else:  # its parent has ended, and waits to be asked how
                        del self._parents[entry]
        return rows

    def _look(self) -> None:
        """Learn who started whom, of those that are new, and of those whose parent is gone."""
        ago = time.monotonic() - self._looked_at
        known = self._parents if ago < _SAME_S else {}
        self._looked_at += ago
        entries = set(os.listdir("/proc"))
        self._parents = {each: above for each, above in known.items() if each in entries and above in entries}
        for entry in filter(str.isdigit, entries.difference(self._parents)):
            with contextlib.suppress(OSError):  # gone already
                text = _read(f"/proc/{entry}/stat")
                self._parents[entry] = text[text.rindex(b")") + 4 :].split(None, 1)[0].decode()


def words(pid: int) -> list[str]:
    """A process's command; nothing of one that has ended. Raises OSError where it is gone."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        text = file.read().rstrip(b"\0")
    return [word.decode("utf-8", "replace") for word in text.split(b"\0")] if text else []


def framework(pid: int) -> str | None:
    """The framework that a process has imported, "" where none; None where it has ended, or may not be read."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            maps = file.read()
    except OSError:
        return None
    return next((row.package for row in SUPPORT if row.library and row.library in maps), "") if maps else None


def whole_name(row: Stat) -> str:
    """Its name, also where the kernel has cut it. Raises OSError where it is gone."""
    if len(row.name) < _CUT_CHARS:
        return row.name
    first = os.path.basename((words(row.pid) or [""])[0])
    return first if first.startswith(row.name) else row.name


def available_bytes() -> int:
    """The memory that the machine could give to a process without swapping."""
    return _meminfo(b"MemAvailable:")


def total_bytes() -> int:
    """The machine's memory."""
    return _meminfo(b"MemTotal:")


def _meminfo(name: bytes) -> int:
    text = _read("/proc/meminfo")
    return int(text[text.index(name) + len(name) :].split(None, 1)[0]) * 1024


def _read(path: str) -> bytes:
    """A short file of /proc, quicker than by `open`. Raises OSError where it is gone."""
    with FileIO(path) as file:  # which is closed also where a signal's handler raises as it is opened
        return file.read(_MOST_BYTES)
