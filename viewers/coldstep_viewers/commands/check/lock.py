"""`coldstep lock`: what a run compiles, as a text file to be reviewed."""

from __future__ import annotations

from pathlib import Path

import click

from coldstep.analysis.across.run_diff import summarize
from coldstep.analysis.budgets import doubts
from coldstep.blind_spots import CLAIMS
from coldstep_viewers.ci import lockfile
from coldstep_viewers.commands.output import echo, fail
from coldstep_viewers.commands.shared import loaded, protect


@click.command("lock", short_help="Write what compiles into a small text file, to be reviewed and checked against.")
@click.argument("trace")
@click.option("-o", "--output", metavar="FILE", help="Write there instead of printing.")
def command(trace: str, output: str | None) -> None:
    """Say what compiles: functions, compiles, causes, graph breaks, operations, and where steps settle.

    There are no times in it and nothing of a machine: the same program gives the same text. Kept in the repository,
    its diff shows what a change made compile, and coldstep check --baseline holds a run against it.

    \b
    Example:
      coldstep lock run.pftrace -o coldstep.lock
      coldstep check run.pftrace --baseline coldstep.lock
    """
    if output is not None:
        protect([trace], output)
    found = loaded(trace)
    for doubt in doubts(found, claims=set(CLAIMS)):
        fail(f"cannot lock {trace}: {doubt}")
    text = lockfile.write(summarize(found))
    if output is None:
        echo(text.removesuffix("\n"))
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
