"""The files of a job, beside each other: what each process's is called, which there are, and which are of before."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator

from coldstep import clock
from coldstep._util.slotted import slotted
from coldstep._util.stderr import say
from coldstep.errors import TraceError
from coldstep.events import Args
from coldstep.job.job import Job
from coldstep.pftrace import layout
from coldstep.pftrace.proto import SLICE_BEGIN
from coldstep.recording.output import BINARY, Taken, above_stderr, environment_rank, file_to_write, is_folder, open_new

_MOST_FILES = 512
_MOST_SILENT = 64  # files, beyond which a process needs to have compiled for one
_MOST_BYTES = 1 << 30
_MOST_LIVES = 10_000  # of one name: processes of one pid, restarts of one rank
_MOST_HEAD = 64  # packets before the one that says what ran


class Full(OSError):
    """The job has all the files that it may have."""


@slotted
class Part:
    """A trace, of a job or of none."""

    path: str
    about: Args
    """The arguments with which it begins: those of its process."""

    @property
    def job(self) -> str | None:
        """The job's id; None of a trace by itself."""
        return str(self.about["job"]) if self.about.get("job") is not None else None


# --- writing ------------------------------------------------------------------------------------------------------


def open_file(job: Job, name: str, rank: int | None, *, is_silent: bool = False) -> tuple[str, int]:
    """The file of this process, and its descriptor: FILE itself is the root's, but that of one program only.

    Raises OSError where none can be written: Full where the job has as many as it may. The root prints that; a process
    below leaves word, unless it is silent.
    """
    from coldstep.job.lost import leave_word

    try:
        if job.is_root and not _is_written(job):
            remove_earlier(job)
            path = file_to_write(job.file, rank, name)
            with contextlib.suppress(Taken):
                return path, open_new(path)
        _refuse_too_many(job, _MOST_SILENT if is_silent else _MOST_FILES)
        return _open_part(job, name)
    except OSError as error:
        if job.is_root:
            say(f"cannot write {job.file}: {error.strerror or error}")
        elif not is_silent:
            leave_word(job.id)
        raise


def free_path(job: Job, name: str) -> str:
    """A name for a part that no file has yet."""
    return next(path for path in _paths(job, name) if not os.path.exists(path))


def _open_part(job: Job, name: str) -> tuple[str, int]:
    """One beside FILE, and never one that is there already."""
    for path in _paths(job, name):
        try:
            return path, above_stderr(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600))
        except FileExistsError:
            continue
    raise Full("there are too many of its name")


def _paths(job: Job, name: str) -> Iterator[str]:
    """The names that a part may have, in order."""
    stem, suffix = _stem(job, name)
    return (f"{stem}{f'-{life}' if life > 1 else ''}{suffix}" for life in range(1, _MOST_LIVES))


def _stem(job: Job, name: str) -> tuple[str, str]:
    rank, inherited = job.rank, environment_rank()
    if is_folder(job.file) or "{pid}" in job.file or "{rank}" in job.file:
        return os.path.splitext(file_to_write(job.file, rank if rank is not None else inherited, name))
    stem, suffix = os.path.splitext(job.file)
    if rank is not None:
        return f"{stem}-rank{rank}", suffix
    above = f"-rank{inherited}" if inherited is not None else ""
    return f"{stem}{above}-{name}-{os.getpid()}", suffix


def _refuse_too_many(job: Job, most: int) -> None:
    there = _beside(job.file)
    if len(there) + 1 < most and sum(map(_size, there)) < _MOST_BYTES:
        return  # all of them together, whosever they are
    own = [path for path in there if (part := head(path)) is not None and part.job == job.id]
    if len(own) + 1 >= most:  # FILE is one, too
        raise Full(f"the job has {most} files")
    if sum(map(_size, own)) >= _MOST_BYTES:
        raise Full("the job's files have 1 GiB")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _is_written(job: Job) -> bool:
    """Whether FILE is of this job already: an earlier program of the root process's has written it."""
    part = head(job.file)
    return part is not None and part.job == job.id


def remove_earlier(job: Job) -> None:
    """Remove what earlier jobs of FILE have left beside it, as FILE itself is replaced; what a job that still runs has
    written stays."""
    for path in _beside(job.file):
        part = head(path)
        if part is not None and _belongs(part, job.file) and part.job not in (None, job.id) and not _lives(part.about):
            try:
                os.unlink(path)
            except OSError:
                continue  # it is not ours to remove


def _lives(about: Args) -> bool:
    """Whether a process runs, or one above it in its job: of another machine's that is not known, so it may."""
    if about.get("host") != os.uname().nodename or about.get("boot") != clock.boot_id():
        return True
    above = about.get("ancestors") or []
    known = [] if any(row[0] == 1 for row in above) else above  # its way to the root was lost
    return any(born == clock.born(pid) for pid, born in [(about.get("pid", 0), about.get("born")), *known])


# --- reading ------------------------------------------------------------------------------------------------------


def parts_of(path: str, job: str | None = None) -> list[str]:
    """The files of FILE's newest job, or of the one with that id, the root's first; FILE alone where it is a trace by
    itself, or one part of a job."""
    own = head(path) if os.path.exists(path) else None
    if own is not None and own.job is not None and not _belongs(own, path):
        return [path]
    parts = [part for each in _beside(path) if (part := head(each)) is not None and _belongs(part, path)]
    parts = [part for part in [*([own] if own is not None else []), *parts] if job in (None, part.job)]
    if not any(part.job is not None for part in parts):
        return [path] if job is None else []
    began: dict[str | None, str] = {}
    for part in parts:
        began[part.job] = min(str(part.about.get("started", "")), began.get(part.job, "~"))
    newest = max(began, key=lambda job: began[job])
    chosen = [part for part in parts if part.job == newest]
    return [part.path for part in sorted(chosen, key=lambda part: (part is not own, *_place(part.about)))]


def _place(about: Args) -> tuple[int, int, int, str]:
    """Parents come before their children, and ranks in order."""
    rank, born, ancestors = (about.get(name) for name in ("rank", "born", "ancestors"))
    depth = len(ancestors) if isinstance(ancestors, list) else 0
    return depth, -1 if rank is None else int(rank), int(born or 0), str(about.get("started"))


def head(path: str) -> Part | None:
    """The begin of a trace; None of a file that is none."""
    from coldstep.pftrace.reader import EventRow, TrackRow, decoded  # not in each process that a job has

    try:
        for number, (_, row) in enumerate(decoded(path)):
            if isinstance(row, TrackRow) and row.name == layout.MERGED:
                return Part(path, {"job": "", "file": None})  # whole by itself
            if isinstance(row, EventRow) and row.kind == SLICE_BEGIN and row.category == layout.TRACE:
                return Part(path, row.args)
            if number > _MOST_HEAD:
                return None
    except (TraceError, ArithmeticError, LookupError, TypeError, ValueError):
        pass
    return None


def _beside(file: str) -> list[str]:
    """What may be parts of FILE's jobs."""
    if is_folder(file):
        return []
    stem, suffix = os.path.splitext(file)
    return sorted(glob.glob(f"{glob.escape(stem)}-*{glob.escape(suffix)}"))


def _belongs(part: Part, file: str) -> bool:
    return part.about.get("file") == os.path.basename(file)
