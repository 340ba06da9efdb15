"""What a run compiles, as a text file to be reviewed: `coldstep check --write-baseline`, and its older name `lock`."""

from __future__ import annotations

from pathlib import Path

import click

from coldstep.analysis.across.run_diff import summarize
from coldstep.analysis.budgets import doubts
from coldstep.blind_spots import CLAIMS
from coldstep.model import Trace
from coldstep_viewers.ci import lockfile
from coldstep_viewers.commands.inputs import loaded, protect
from coldstep_viewers.commands.output import echo, fail, or_fail


def write_lock(path: str, trace: Trace, output: str | None) -> None:
    """Write what `trace`, read from `path`, compiles: functions, compiles, causes, graph breaks, operations, and where
    steps settle. There are no times in it and nothing of a machine: the same program gives the same text.

    Without `output` it is printed. Exit code 2 where the trace does not show all that compiled.
    """
    if output is not None:
        protect([path], output)
    for doubt in doubts(trace, claims=set(CLAIMS)):
        fail(f"cannot write a baseline of {path}: {doubt}")
    text = lockfile.write(summarize(trace))
    if output is None:
        echo(text.removesuffix("\n"))
        return
    with or_fail(f"cannot write {output}"):
        Path(output).write_text(text, encoding="utf-8")


@click.command("lock", hidden=True)
@click.argument("trace")
@click.option("-o", "--output", metavar="FILE", help="Write there instead of printing.")
def command(trace: str, output: str | None) -> None:
    """An older name for coldstep check TRACE --write-baseline FILE.

    \b
    Example:
      coldstep check run.pftrace --write-baseline coldstep.lock
      coldstep check run.pftrace --baseline coldstep.lock
    """
    write_lock(trace, loaded(trace), output)
