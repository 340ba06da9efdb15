"""Begins a job with this process: where its trace goes, how its children join it, how many of them wrote a trace."""

from __future__ import annotations

import os

from coldstep._util.figures import count
from coldstep.errors import our_errors
from coldstep.job.job import Job, job_of_ranks, new_job, of_environment
from coldstep.job.parts import free_path, parts_of, remove_earlier
from coldstep.job.reach import use_shim
from coldstep.recording.output import environment_rank, file_to_write, is_folder
from coldstep_shim import CHILDREN, FILE, JOB

_VARIABLES = (FILE, JOB, "PYTHONPATH")


def place(file: str, name: str, *, asked: bool, children: bool) -> tuple[str, Job | None]:
    """Where the trace of a script goes, and its job: a rank of a launcher that is of a job is a part of that, unless a
    file was asked for; any other run begins one.

    Raises OSError where it cannot be made a folder.
    """
    if not children or os.environ.get(CHILDREN) == "0":
        return _with_rank(file, name), None
    if (outer := of_environment()) is not None and outer.rank is not None and not asked:
        outer.name = name
        return free_path(outer, name), outer
    output = _with_rank(file, name)
    if os.environ.get("RANK") and "{rank}" not in file and not is_folder(file):
        return output, job_of_ranks(os.path.abspath(file), name)
    return output, new_job(os.path.abspath(output), name)


def _with_rank(path: str, script: str) -> str:
    if (rank := environment_rank()) is not None and "{rank}" not in path and not is_folder(path):
        stem, suffix = os.path.splitext(path)
        path = f"{stem}-rank{{rank}}{suffix}"
    return file_to_write(path, rank, script)


def begin_job(job: Job) -> None:
    """Have the processes that this one starts be traced as parts of it."""
    if job.is_root:
        remove_earlier(job)
    job.tell_children()
    use_shim()


class Follows:
    """Has the processes that a block starts traced: by variables of the environment, which it sets and restores."""

    def __init__(self, job: Job) -> None:
        self._before = {name: os.environ.get(name) for name in _VARIABLES}
        begin_job(job)
        self._ours = {name: os.environ.get(name) for name in _VARIABLES}

    def end(self) -> None:
        """Leave each variable as it was, but for one that the program has set meanwhile."""
        for name, before in self._before.items():
            is_ours = os.environ.get(name) == self._ours[name]
            if is_ours and before is not None:
                os.environ[name] = before
            elif is_ours:
                os.environ.pop(name, None)


def with_parts(job: Job | None, headline: str) -> str:
    """A root's headline; where processes below have traces of their own, that it is of this process alone."""
    try:
        number = len(parts_of(job.file, job.id)) - 1 if job is not None and job.is_root else 0
    except our_errors():  # the program may have given up the right to read its own Python
        number = 0
    if number < 1:
        return headline
    more = count(number, "more process", "more processes")
    return f"this process alone: {headline}; {more} traced, coldstep report shows all"
