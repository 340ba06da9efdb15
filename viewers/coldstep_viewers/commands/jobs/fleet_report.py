"""`coldstep fleet report`: what thousands of traces show together."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coldstep._util.figures import count, duration
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.output import echo, echo_json, exit_with, fail, needs, say_left_out
from coldstep_viewers.safe_text import plain

if TYPE_CHECKING:
    from coldstep_viewers.fleet.report import Report
    from coldstep_viewers.fleet.sections import Section

_BY = ("commit", "host", "rank", "job", "day")
_WIDTH = 160


@click.command("report", short_help="What thousands of traces have in common.")
@click.argument("tables", metavar="TABLES")
@click.option("--by", type=click.Choice(_BY), help="Also a row for each of these.")
@findings("text", "json", "html")
def command(tables: str, by: str | None, wanted: Wanted) -> None:
    """Show what the traces in TABLES (made by coldstep fleet load) have in common.

    Programs compiled more than once; which ranks, pods or machines differ from their peers, and in what; who waited for
    whom; since which commit the first step comes later; then percentiles of the cold start, the slowest programs,
    recompiles by cause and place, disk caches, versions.

    \b
    Example:
      coldstep fleet report tables
      coldstep fleet report tables --by commit
      coldstep fleet report s3://traces/tables -o fleet.html
    """
    with needs("sql"):
        from coldstep_viewers.fleet import report as fleet
        from coldstep_viewers.fleet.places import FleetError
        from coldstep_viewers.fleet.store import Store
    try:
        if wanted.path is not None:
            wanted.keep(Store(tables).paths())
        found = fleet.report(tables, by)
    except FleetError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot read {tables}: {error}")
    if wanted.format == "html":
        from coldstep_viewers.fleet.page import page

        echo(page(found), commands=True)
    elif wanted.format == "json":
        echo_json(found.to_json())
    else:
        echo(plain(_text(found)))
    say_left_out(found.lost)
    exit_with(found.lost)


def _text(found: Report) -> str:
    processes = count(found.processes, "process", "processes")
    lines = [f"{found.tables}: {processes} in {count(found.runs, 'trace')} on {count(found.hosts, 'host')}", ""]
    lines += [f"Findings ({len(found.findings)})"]
    for each in found.findings:
        lines.append(f"  {each.kind:<18} {each.text}" + (f" [{duration(each.cost_ns)}]" if each.cost_ns else ""))
    for section in found.sections:
        if section.rows:
            lines += ["", section.title + (f" ({section.about})" if section.about else ""), _table(section)]
    if found.unread:
        states = ", ".join(f"{number:,} {state.replace('_', ' ')}" for state, number in sorted(found.states.items()))
        lines += ["", f"Of the sources: {states}"]
    return "\n".join(lines)


def _table(section: Section) -> str:
    from coldstep_viewers.fleet import words

    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = words.columns(section)
    for column in shown:
        number = any(words.is_number(column, row[column]) for row in section.rows)
        table.add_column(Text(plain(words.header(column))), justify="right" if number else "left", overflow="fold")
    for row in section.rows:
        table.add_row(*(Text(plain(words.cell(column, row[column])).replace("\n", " ")) for column in shown))
    text = io.StringIO()
    terminal = sys.stdout.isatty()
    width = os.get_terminal_size().columns if terminal else _WIDTH
    Console(file=text, width=width, no_color=True, highlight=False).print(table)
    return "\n".join(f"  {line.rstrip()}" for line in text.getvalue().splitlines())
