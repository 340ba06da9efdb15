"""`coldstep report`: what a trace says, as text or as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys

import click

from coldstep_viewers.commands.cli import loaded
from coldstep_viewers.terminal import render

_LOG_WIDTH = 100


@click.command("report", short_help="What the first run cost, what recompiled and why, whether it settled.")
@click.argument("trace")
@click.option("--json", "as_json", is_flag=True, help="Print the rows (schema coldstep/1) instead of text.")
def command(trace: str, as_json: bool) -> None:
    """Say what the first run's time went to, what recompiled and why, where the graph broke, and whether it settled.

    \b
    Example:
      coldstep report run.pftrace
      coldstep report run.pftrace --json | jq .cost
    """
    found = loaded(trace)
    terminal = sys.stdout.isatty()
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2 if terminal else None))
        return
    width = max(60, shutil.get_terminal_size().columns) if terminal else _LOG_WIDTH
    colour = terminal and not os.environ.get("NO_COLOR")
    # a log's encoding may lack the bars: a question mark is better there than no report
    encoding = sys.stdout.encoding or "utf-8"
    click.echo(render(found, width, colour).encode(encoding, "replace").decode(encoding), color=colour)
