"""`coldstep export`: a trace for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from coldstep.errors import damaged
from coldstep_viewers.commands.inputs import loaded
from coldstep_viewers.commands.output import echo, needs, or_fail


@click.command("export", short_help="Write a trace for TensorBoard, or as Parquet tables.")
@click.argument("trace")
@click.option("--to", "kind", type=click.Choice(["tensorboard", "parquet"]), required=True, help="For what.")
@click.argument("folder", metavar="DIR")
def command(trace: str, kind: str, folder: str) -> None:
    """Write TRACE for other tools: for TensorBoard's profile plugin (DIR is its log directory), or as Parquet tables.

    \b
    Example:
      coldstep export run.pftrace --to tensorboard logs    # then: tensorboard --logdir logs
      coldstep export run.pftrace --to parquet tables
    """
    found = loaded(trace)
    with or_fail(f"cannot write to {folder}"):
        if kind == "tensorboard":
            from coldstep_viewers.export.tensorboard import export

            with damaged(trace):
                written = [export(found, Path(trace), Path(folder))]
        else:
            with needs("sql"):
                from coldstep_viewers.export import parquet
                from coldstep_viewers.export.tables import run_of, tables
            with damaged(trace):
                run = run_of(Path(trace))
                written = parquet.export(tables(found, run), Path(folder), run)
    for path in written:
        echo(str(path))
