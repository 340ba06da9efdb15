"""Begins the trace of a process that `COLDSTEP=FILE` has reached: in memory, until there is something to record."""

from __future__ import annotations

import atexit
import sys
from importlib.machinery import ModuleSpec

from coldstep._util.stderr import say
from coldstep.job.job import of_environment
from coldstep.session import Session, active
from coldstep.tracing import Block, part_trace


def begin(spec: ModuleSpec) -> None:
    """Begin before the module of `spec`, a framework, is loaded; where a trace goes on already, it watches that."""
    job = of_environment()
    if job is None or active() is not None:
        return
    block = part_trace(job)
    run = block.__enter__()
    atexit.register(_end, block, run)
    run.attached.import_hook.watch(spec)


def _end(block: Block, run: Session) -> None:
    """Write the rest; of all processes only the root prints a line, and only where it has a trace."""
    job = run.options.job
    is_root = job is not None and job.is_root and run.is_written and run.in_own_process()
    error = getattr(sys, "last_value", None)
    block.__exit__(type(error) if error is not None else None, error, None)
    if is_root:
        say(f"{run.path}: {run.headline}")
