"""Runs a command that is no script, as it is, its Pythons traced: `coldstep run torchrun …`.

Standard library only: it runs in the user's process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence

from coldstep._util.figures import count
from coldstep._util.labels import OF_THE_JOB, of_the_job
from coldstep._util.stderr import say
from coldstep.job.job import Job, new_job, program_name
from coldstep.job.lost import take_word
from coldstep.job.parts import parts_of, remove_earlier
from coldstep.job.reach import use_shim
from coldstep.job.supervise import end_as, supervise
from coldstep.recording.output import is_folder
from coldstep_shim import WAITS
from coldstep_viewers.commands.output import fail, or_fail

# Shell: "python3.11"
_PYTHON = re.compile(r"python[\d.]*")
_FLAGS = {"live": "no-live", "infer": "no-infer", "children": "no-children"}


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
        if not options.waits:
            os.environ[WAITS] = "0"
        if options.label:
            os.environ[OF_THE_JOB] = json.dumps(of_the_job(os.environ) | dict(options.label))

    with or_fail(f"cannot run {command[0]}"):
        code = supervise(path, list(command), prepare)
    say(f"{file}: {_traced(job)}")
    if lost := len(take_word(job.id)):
        say(f"{file}: {count(lost, 'process', 'processes')} could not write a trace: what compiled there is not known")
    return end_as(code)


def _traced(job: Job) -> str:
    """How many processes have a trace, and who shows them."""
    parts = parts_of(job.file, job.id)
    if not parts:
        return "no trace, for coldstep saw none of its processes compile"
    return f"{count(len(parts), 'process', 'processes')} traced; coldstep report {os.path.relpath(job.file)} shows them"
