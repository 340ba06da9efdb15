"""Where a trace goes: the file, its name by rank, the lock that keeps others out of it; and the project's folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from coldstep.collector import Collector
from coldstep.errors import contained

BINARY: int = getattr(os, "O_BINARY", 0)
"""What has Windows, too, leave bytes as they are."""


class Taken(OSError):
    """Another process is writing the file."""


def file_to_write(path: str, rank: int | None, script: str) -> str:
    """The file to write: `path` with `{rank}` (0 where it is not known) and `{pid}` filled in; in a folder, one named
    after the script and the rank or process. Raises OSError when the folder cannot be made."""
    path = path.replace("{rank}", str(rank or 0)).replace("{pid}", str(os.getpid()))
    if not is_folder(path):
        return path
    os.makedirs(path, exist_ok=True)
    return os.path.join(path, f"{script}-{f'rank{rank}' if rank is not None else os.getpid()}.pftrace")


def own_name(path: str) -> str:
    """The name of a file beside `path` that is this process's alone."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}-{os.getpid()}{suffix}"


def is_folder(path: str) -> bool:
    """Whether `path` means a folder: by its last character, or because it is one."""
    return path.endswith(os.sep) or os.path.isdir(path)


def open_new(file: str) -> int:
    """The new, empty trace; never as descriptor 0 to 2, which C code writes to whatever they are; its owner's alone,
    for it holds a command line.

    Raises OSError when it cannot be written, and Taken when another process is writing it.
    """
    fd = above_stderr(os.open(file, os.O_WRONLY | os.O_CREAT | BINARY, 0o600))
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            _lock(fd)
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def above_stderr(fd: int) -> int:
    """The descriptor, or in its place another that is none of 0 to 2."""
    if fd > 2:
        return fd
    import fcntl  # only where a trace is written: reading needs nothing that only Linux has

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _lock(fd: int) -> None:
    """Until this process closes the file, or ends; a file system that knows no locks does without."""
    import fcntl

    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise Taken(error.errno, "another process is writing it: put {rank} or {pid} into its name") from None


def environment_rank() -> int | None:
    """The rank that torchrun, or whoever launched this process, gave it."""
    text = os.environ.get("RANK", "")
    return int(text) if text.isdigit() else None


def rank_of(collectors: Iterable[Collector]) -> int | None:
    """The rank of this process in its job: the environment's, else what a collector knows of the framework's."""
    rank = environment_rank()
    for collector in collectors if rank is None else ():
        with contained():
            if rank is None and (find := getattr(collector, "rank", None)) is not None:
                rank = find()
    return rank


def project_root() -> str:
    """Git's top level of the working folder, else that folder. Where that is gone, nothing: so places stay absolute."""
    try:
        folder = at = os.getcwd()
    except FileNotFoundError:
        return ""
    while not os.path.exists(os.path.join(at, ".git")):
        parent = os.path.dirname(at)
        if parent == at:
            return folder
        at = parent
    return at
