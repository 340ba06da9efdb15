"""`coldstep sql`: a question to many traces at once."""

from __future__ import annotations

import io
import json
import os
import sys
from decimal import Decimal
from glob import glob
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from coldstep._util.stderr import say
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.output import echo, fail, needs, or_fail
from coldstep_viewers.safe_text import plain

_MAX_ROWS = 1_000
_MAX_OBJECTS = 1_000_000


@click.command("sql", short_help="Query many traces at once, in SQL.")
@click.argument("pattern", metavar="GLOB")
@click.argument("statement", metavar="SELECT")
@findings("text", "json")
def command(pattern: str, statement: str, wanted: Wanted) -> None:
    """Query all traces that match GLOB, in DuckDB's SQL.

    The tables are runs, processes, costs, intervals, phases, compiles, changes, caches, components and findings;
    "describe compiles" lists the columns of one. A trace is read once: its tables are kept in
    the user's cache folder.

    \b
    Example:
      coldstep sql run.pftrace "select phase, sum(ns) / 1e9 as s from phases group by all order by s desc"
      coldstep sql 'ci/**/*.pftrace' "select cause, count(*), sum(wall_ns) / 1e9 as s from compiles
                                      where started > now() - interval 7 days group by all order by s desc"
    """
    with needs("sql"):
        from coldstep_viewers.export import queries
    paths = sorted(Path(path) for path in glob(pattern, recursive=True) if os.path.isfile(path))
    if not paths:
        fail(f"no file matches {pattern}")
    wanted.keep(map(str, paths))
    with or_fail():
        # of one file, what is wrong with it is all there is to say
        problem = fail if len(paths) == 1 else lambda text: say(plain(f"left out: {text}"))
        with queries.query(paths, statement, problem) as answer:
            rows = (row for batch in answer.batches for row in batch)
            if wanted.format == "json":
                for row in islice(rows, _MAX_OBJECTS):
                    if not echo(json.dumps(row, default=_json)):
                        return
                if next(rows, None) is not None:
                    say(f"the first {_MAX_OBJECTS:,} rows: narrow the statement, or coldstep export --to parquet")
            else:
                shown = list(islice(rows, _MAX_ROWS))
                more = next(rows, None) is not None
                _print(answer.columns, shown)
                if more:
                    say(f"the first {_MAX_ROWS:,} rows; --format json prints up to {_MAX_OBJECTS:,}")


def _print(columns: list[str], rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        number = any(isinstance(row[column], int | float | Decimal) for row in rows)
        table.add_column(Text(plain(column)), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    text = io.StringIO()
    # a pipe or a file has no width: folded there, values could not be searched for
    width = None if terminal else sys.maxsize
    console = Console(file=text, force_terminal=terminal, width=width, no_color=not colour, highlight=False)
    wide = Measurement.get(console, console.options.update(max_width=sys.maxsize), table).maximum
    if terminal and len(columns) > 1 and wide > console.width:
        for row in rows:
            console.print(_record(row))
    else:
        console.print(table)
    echo(text.getvalue().removesuffix("\n"))


def _record(row: dict[str, Any]) -> RenderableType:
    """A row that is wider than the terminal: a line for each of its columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for column, value in row.items():
        table.add_row(Text(plain(column), "bold"), Text(_cell(value), overflow="fold"))
    return Group(table, "")


def _json(value: Any) -> Any:
    if isinstance(value, Decimal):  # a sum of integers is one without decimals
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else plain(str(value))
