"""What `coldstep run` does for the processes below: names their job, and runs a command that is no script.

Standard library only: it runs in the user's process.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from coldstep._util.figures import count
from coldstep._util.stderr import say
from coldstep.job.job import Job, job_of_ranks, new_job, of_environment, program_name
from coldstep.job.lost import take_word
from coldstep.job.parts import free_path, parts_of, remove_earlier
from coldstep.job.reach import use_shim
from coldstep.job.supervise import end_as, supervise
from coldstep.recording.output import environment_rank, file_to_write, is_folder
from coldstep_shim import CHILDREN
from coldstep_viewers.commands.output import fail

# Shell: "python3.11"
_PYTHON = re.compile(r"python[\d.]*")
_FLAGS = {"live": "no-live", "infer": "no-infer", "children": "no-children"}


def place(file: str, name: str, *, asked: bool, children: bool) -> tuple[str, Job | None]:
    """Where the trace of a script goes, and its job: a rank of a launcher that is of a job is a part of that, unless a
    file was asked for; any other run begins one.

    Raises OSError where it cannot be made a folder.
    """
    if not children or os.environ.get(CHILDREN) == "0":
        return _with_rank(file, name), None
    outer = of_environment()
    if outer is not None and outer.rank is not None and not asked:
        outer.name = name
        return free_path(outer, name), outer
    output = _with_rank(file, name)
    if os.environ.get("RANK") and "{rank}" not in file and not is_folder(file):
        return output, job_of_ranks(os.path.abspath(file), name)
    return output, new_job(os.path.abspath(output), name)


def _with_rank(path: str, script: str) -> str:
    rank = environment_rank()
    if rank is not None and "{rank}" not in path and not is_folder(path):
        stem, suffix = os.path.splitext(path)
        path = f"{stem}-rank{{rank}}{suffix}"
    return file_to_write(path, rank, script)


def begin_job(job: Job) -> None:
    """Have the processes that this one starts be traced as parts of it."""
    if job.is_root:
        remove_earlier(job)
    job.tell_children()
    use_shim()


def run_command(path: str, command: Sequence[str], options: argparse.Namespace, given: Sequence[str]) -> int:
    """Run a program as it is, its Pythons traced. Returns its exit code; a signal that ended it ends this process."""
    if given:
        flags = ", ".join(f"--{_FLAGS.get(each, each).replace('_', '-')}" for each in given)
        fail(f"{flags}: only for a script or -m module, not for a command such as {command[0]}")
    python = _PYTHON.fullmatch(os.path.basename(command[0])) is not None
    default = program_name(list(command[1:])) if python else os.path.basename(command[0])
    file = options.output or f"{default}.pftrace"
    folder = file if is_folder(file) else os.path.dirname(file) or "."
    if not os.access(folder, os.W_OK):
        fail(f"cannot write {file}: {'no permission' if os.path.exists(folder) else 'No such file or directory'}")
    job = new_job(os.path.abspath(file), default)
    remove_earlier(job)

    def prepare() -> None:
        job.root = os.getpid()
        job.tell_children()
        use_shim()

    try:
        code = supervise(path, list(command), prepare)
    except OSError as error:
        fail(f"cannot run {command[0]}: {error.strerror}")
    say(f"{file}: {_traced(job)}")
    if lost := len(take_word(job.id)):
        say(f"{file}: {count(lost, 'process', 'processes')} could not write a trace: what compiled there is not known")
    return end_as(code)


def below(job: Job | None) -> str:
    """How many processes below this one have a trace of their own, as the end of a line."""
    number = len(parts_of(job.file, job.id)) - 1 if job is not None and job.is_root else 0
    if number < 1:
        return ""
    return f"; {count(number, 'more process', 'more processes')} traced, coldstep report shows all"


def _traced(job: Job) -> str:
    """How many processes have a trace, and who shows them."""
    parts = parts_of(job.file, job.id)
    if not parts:
        return "no trace, for coldstep saw none of its processes compile"
    return f"{count(len(parts), 'process', 'processes')} traced; coldstep report {os.path.relpath(job.file)} shows them"
