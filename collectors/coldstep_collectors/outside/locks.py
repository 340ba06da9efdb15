"""Says whose lock a build waits for, and, where no process on this host holds it, that nobody will ever let it go."""

from __future__ import annotations

import os
import sys
import time
from functools import wraps
from queue import Empty, SimpleQueue
from typing import Any

from coldstep._util.stderr import say
from coldstep._util.threads import OwnThread
from coldstep.collector import Sink
from coldstep_collectors.outside.around import Around

_LOOK_AFTER_S = 2.0
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "ceph", "beegfs", "9p", "fuse.sshfs", "fuse.juicefs")


def watch_batons(module: Any, around: Around) -> None:
    """Have the time that PyTorch's lock on a build's folder is waited for count as such."""
    real = module.FileBaton.wait

    @wraps(real)
    def waited(self: Any, *args: Any, **options: Any) -> Any:
        with around.within("build.wait", sys._getframe(1)) as begin:
            look = _Look(around.sink, os.path.abspath(self.lock_file_path)) if begin is not None else None
            try:
                return real(self, *args, **options)
            finally:
                if look is not None:
                    look.end()

    around.put(module.FileBaton, "wait", waited)


class _Look:
    """Looks who holds a lock, should it still be there after a moment. Nothing is deleted."""

    def __init__(self, sink: Sink, path: str) -> None:
        self._sink, self._path = sink, path
        self._over: SimpleQueue[None] = SimpleQueue()
        OwnThread("coldstep-lock", self._run).start()

    def end(self) -> None:
        self._over.put(None)

    def _run(self) -> None:
        try:
            self._over.get(timeout=_LOOK_AFTER_S)
        except Empty:
            if (text := whose(self._path)) is not None:
                self._sink.note(text)
                self._sink.meanwhile(lambda: say(text))


def whose(path: str) -> str | None:
    """A sentence on who holds a lock file; None where it is gone."""
    try:
        age = time.time() - os.stat(path).st_mtime
    except OSError:
        return None
    waits = f"a build waits for the lock {path}, which is {age:.0f} s old"
    holder, unseen = _holder(os.path.realpath(path))
    if holder is not None:
        return f"{waits}: process {holder} holds it"
    if _is_network(os.path.realpath(path)):
        return f"{waits}: it is on a network mount, so whether a process holds it cannot be known here"
    if unseen:
        return f"{waits}: none of the processes that may be looked at holds it"
    return f"{waits}, and no process on this host holds it: remove the file if nothing builds there"


def _holder(path: str) -> tuple[int | None, bool]:
    """The process that has a file open, and whether some processes could not be looked at."""
    unseen = False
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            numbers = os.listdir(f"/proc/{entry}/fd")
        except PermissionError:
            unseen = True
            continue
        except OSError:
            continue  # gone already
        for number in numbers:
            try:
                if os.readlink(f"/proc/{entry}/fd/{number}") == path:
                    return int(entry), unseen
            except OSError:
                continue
    return None, unseen


def _is_network(path: str) -> bool:
    """Whether a path lies on a file system that other hosts may use."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split(" ")[1:3] for line in file]
    around = (mount for mount in mounts if path.startswith(f"{mount[0].rstrip('/')}/"))
    return max(around, key=lambda mount: len(mount[0]), default=["", ""])[1] in _NETWORK
