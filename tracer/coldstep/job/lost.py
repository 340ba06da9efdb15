"""Processes of a job that could not write their trace: each leaves word in the temporary folder, for the one above."""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile

from coldstep_shim import JOB

_SUFFIX = ".lost"


def leave_word(job: str) -> None:
    """Of this process, which has no trace; where that cannot be written either, nothing is."""
    with contextlib.suppress(OSError):
        os.close(os.open(_path(job, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def take_word(job: str = "", pid: int | None = None) -> list[int]:
    """The processes of a job, or the one asked for, that left word; it is taken away. Without a job: this process's,
    of which only the first takes the words of all, lest one take its own."""
    if not job:
        job, _, rest = os.environ.get(JOB, "").partition(":")
        if pid is None and rest.partition(":")[0] != str(os.getpid()):
            return []
    if not job.isalnum():
        return []
    found = []
    for path in [_path(job, str(pid))] if pid is not None else glob.glob(_path(glob.escape(job), "*")):
        number = path.removesuffix(_SUFFIX).rpartition("-")[2]
        try:
            os.unlink(path)
        except OSError:
            continue  # there is none, or it is not ours
        if number.isdigit():
            found.append(int(number))
    return found


def _path(job: str, pid: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"coldstep-{job}-{pid}{_SUFFIX}")
