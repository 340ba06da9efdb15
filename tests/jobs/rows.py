"""What a process of a job compiled is held against the same work in a process by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import coldstep
from coldstep.model import Process, Trace
from jobs.kinds import PROGRAMS, RAY, run

Row = tuple[str, str, str, str, str]
"""Of a compile: its function and outcome, why it was compiled, where, and what changed."""


@dataclass(frozen=True, slots=True)
class Work:
    """A job, and the same in one process."""

    name: str
    job: str
    alone: str
    does_it: Callable[[Process], bool]
    """Whether that process of the job does the work."""
    inherited: int = 0
    """How many of its compiles were another's, before it began."""
    needs: str = ""
    environment: dict[str, str] = field(default_factory=dict)


WORKS = (
    Work("a fork", "forked.py process", "forked.py alone", lambda row: row.how == "fork"),
    Work("a fork amid a compile", "forked.py amid", "forked.py alone", lambda row: row.how == "fork"),
    Work(
        "gunicorn --preload, the first request",
        "serve.py gunicorn --preload -w 2 -b 127.0.0.1:PORT app:wsgi",
        "python -c 'import app; app.answer()'",
        lambda row: row.how == "fork",
        inherited=1,
        needs="gunicorn",
    ),
    Work(
        "Ray's actor",
        "actors.py",
        "python -c 'import doubler; model = doubler.Model(); model.step(3); model.step(4)'",
        lambda row: row.name == "Model" and row.ended == "killed",
        needs="ray",
        environment=RAY,
    ),
)


@dataclass(slots=True)
class Compared:
    """What both had."""

    alone: list[Row]
    job: list[list[Row]]
    """Of each process that does the work."""
    failures: list[str] = field(default_factory=list)


def compared(work: Work, folder: Path) -> Compared | None:
    """Run both; None where that cannot be here."""
    if work.needs and find_spec(work.needs) is None:
        return None
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    traces = []
    for name, words in (("alone", work.alone), ("job", work.job)):
        words = f"coldstep run -o {name}.pftrace {words}"
        done = run("bash", "-c", words, cwd=folder, PYTHONPATH=str(folder), **work.environment)
        traces.append(coldstep.load(folder / f"{name}.pftrace"))
        if name == "alone" and done.returncode:
            raise RuntimeError(done.stderr.decode())
    alone, job = traces
    rows = rows_of(alone, 0)[work.inherited :]
    those = [row.index for row in job.processes if work.does_it(row) and rows_of(job, row.index)]
    found = Compared(rows, [rows_of(job, index) for index in those])
    if not those:
        found.failures.append("no process of the job has a compile")
    for index, each in zip(those, found.job, strict=True):
        found.failures += [f"process {index}: {a} is {b} alone" for a, b in zip(each, rows, strict=False) if a != b]
        if len(each) != len(rows):
            found.failures.append(f"process {index} has {len(each)} compiles, alone {len(rows)}")
    return found


def rows_of(trace: Trace, process: int) -> list[Row]:
    """What that process compiled, in order."""
    why = {row.compile: row for row in trace.recompiles}
    rows = []
    for row in trace.compiles:
        if row.process == process:
            again = why.get(row.id)
            changed = f"{again.argument}: {again.before} → {again.after}" if again is not None else ""
            place = f"{row.location.file}:{row.location.line}" if row.location is not None else ""
            rows.append((row.function, row.outcome, again.cause if again is not None else "", place, changed))
    return rows
