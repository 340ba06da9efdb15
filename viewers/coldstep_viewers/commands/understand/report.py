"""`coldstep report`: a trace as text, as JSON or as a page."""

from __future__ import annotations

import os
import shutil
import sys

import click

from coldstep._util.installed import offered
from coldstep.model import Trace
from coldstep_viewers.commands.findings import VIEWERS, Wanted, findings
from coldstep_viewers.commands.inputs import loaded
from coldstep_viewers.commands.output import echo, echo_pieces, fail
from coldstep_viewers.report.json_rows import text
from coldstep_viewers.report.markdown import render as markdown
from coldstep_viewers.report.terminal import render
from coldstep_viewers.safe_text import plain

_LOG_WIDTH = 100


@click.command("report", short_help="What the first steps cost, what recompiled and why, whether they settled.")
@click.argument("trace")
@findings("text", "json", "html", "markdown", others=True)
@click.option(
    "--ir",
    "with_programs",
    is_flag=True,
    help="Print the programs that a trace made with --ir has "
    "kept, their operations by line of code, and how those of recompiles differ.",
)
@click.option("--all", "every", is_flag=True, help="Do not group similar steps, recompiles, graph breaks and "
              "findings.")  # fmt: skip
@click.option("--steps", type=click.Choice(["all", "changed"]), default="all", help="With --format json: list every "
              "step, or summarise the steady ones.")  # fmt: skip
@click.option("--step", metavar="WHAT", help="If the program marks no steps, take this as the step: a function, a line "
              "such as train.py:41, or optimizer, trainer, call.")  # fmt: skip
def command(trace: str, wanted: Wanted, with_programs: bool, every: bool, steps: str, step: str | None) -> None:
    """Report what the first steps cost, what recompiled and why, where graphs broke, and whether the steps settled.

    \b
    Example:
      coldstep report run.pftrace
      coldstep report run.pftrace --format json | jq .cost
      coldstep report run.pftrace --all | less
      coldstep report run.pftrace -o run.html
      coldstep report run.pftrace --format markdown >> "$GITHUB_STEP_SUMMARY"
      coldstep report run.pftrace --ir | less
      coldstep report run.pftrace --step evaluate
    """
    if steps != "all" and wanted.format != "json":
        fail("--steps is for --format json: a report always puts steady steps together")
    wanted.keep([trace])
    found = loaded(trace, step)
    if with_programs and not found.keeps_programs:
        fail(f"{trace} holds no programs: record it with coldstep run --ir, or trace(ir=True)")
    if wanted.format == "html":
        from coldstep_viewers.report.html import page  # its template engine takes longer to import than a report takes

        echo(page(found), commands=True)
        return
    if wanted.format not in ("text", "json"):
        echo(markdown(found, every) if wanted.format == "markdown" else offered(VIEWERS, wanted.format)(found))
        return
    if wanted.format == "json":
        indent = 2 if sys.stdout.isatty() else None
        echo_pieces(text(found, changed=steps == "changed", indent=indent, ir=with_programs))
        return
    if with_programs:
        from coldstep_viewers.pages.programs import programs

        for program in programs(found):
            echo(plain(program))
        return
    show(found, every)


def show(trace: Trace, every: bool = False) -> None:
    """Print the report, as a terminal or a log can show it."""
    terminal = sys.stdout.isatty()
    width = max(60, shutil.get_terminal_size().columns) if terminal else _LOG_WIDTH
    colour = terminal and not os.environ.get("NO_COLOR")
    echo(render(trace, width, colour, every))
