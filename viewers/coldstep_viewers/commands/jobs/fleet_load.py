"""`coldstep fleet load`: thousands of traces as tables."""

from __future__ import annotations

import re
import signal
import sys
import time
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from coldstep._util.figures import count, duration
from coldstep._util.stderr import say
from coldstep_viewers.commands.output import echo, exit_with, fail, needs, say_left_out
from coldstep_viewers.safe_text import plain

if TYPE_CHECKING:
    from coldstep_viewers.fleet import filling

_MOST_NAMED = 20
_TOLD_EVERY_S = 30
# Shell: "3/8"
_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")


@click.command("load", short_help="Thousands of traces as tables.")
@click.argument("sources", metavar="SOURCE…", nargs=-1, required=True)
@click.option("-o", "--output", "tables", required=True, metavar="TABLES", help="The folder or address of the tables.")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
              help="Processes of this machine, or the Ray cluster at RAY_ADDRESS.")  # fmt: skip
@click.option("--shard", metavar="I/N", help="Only this part of N (from 0), for arrays of jobs and indexed pods.")
def command(sources: tuple[str, ...], tables: str, engine: str, shard: str | None) -> None:
    """Read the traces that SOURCE… name into TABLES, as Parquet. Traces that are already there are not read again.

    A source is a file, a folder, a pattern, or an address in an object store (s3://, gs://, abfss://). TABLES is a
    folder or such an address. Credentials come from the environment. The rows of a trace that has grown replace its
    earlier rows. The command lists each trace that it cannot read, or that takes more than 60 s of processor time or
    1 GiB. If it is interrupted, run it again, and it continues. Then run coldstep fleet report TABLES.

    With --shard, each of N processes reads its part. When all are done, run the command once without --shard, to put
    the tables in order.

    \b
    Example:
      coldstep fleet load 'ci/**/*.pftrace' -o tables
      coldstep fleet load s3://traces/nightly -o s3://traces/tables
      srun coldstep fleet load /shared/traces -o /shared/tables --shard $SLURM_ARRAY_TASK_ID/64
    """
    with needs("sql"):
        import pyarrow as pa

        from coldstep_viewers.fleet import filling
        from coldstep_viewers.fleet.places import FleetError
    told = _Told()
    try:
        with told:
            filled = filling.fill(sources, tables, engine, _shard(shard), told.tell)
    except FleetError as error:
        fail(str(error))
    except (OSError, pa.ArrowException) as error:
        fail(f"cannot write {tables}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    except KeyboardInterrupt:
        say(f"stopped: {told.text or 'nothing was read'}; run it again to go on")
        sys.exit(128 + signal.SIGINT)
    _tell(filled, tables)
    say_left_out(filled.lost)
    exit_with(filled.lost)


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = _SHARD.fullmatch(text)
    if match is None or not int(match[1]) < int(match[2]):
        fail(f"--shard {text} is no part of a number, such as 0/8 … 7/8")
    return int(match[1]), int(match[2])


def _tell(filled: filling.Filled, tables: str) -> None:
    from coldstep_viewers.fleet.store import COPY, CUT, READ

    said = [outcome for outcome in filled.outcomes if outcome.state not in (READ, COPY)]
    for outcome in said[:_MOST_NAMED]:
        how = "read as far as it goes" if outcome.state == CUT else f"not read ({outcome.state.replace('_', ' ')})"
        say(plain(f"{how}: {outcome.uri}: {outcome.why}"))
    if len(said) > _MOST_NAMED:
        say(f"and {len(said) - _MOST_NAMED:,} more: coldstep fleet report {tables} --format json lists all")
    if not filled.new and not filled.known:
        echo(plain(f"{tables}: there are no traces to read"))
        return
    if not filled.new:
        what = count(filled.known, "object")
        echo(plain(f"{tables}: nothing is new: {what} {'is' if filled.known == 1 else 'are'} there as they were read"))
        return
    rows = sum(outcome.state in (READ, CUT) for outcome in filled.outcomes)
    copies = sum(outcome.state == COPY for outcome in filled.outcomes)
    parts = [f"{count(rows, 'trace')} read"]
    parts += [f"{count(copies, 'copy', 'copies')} of others"] if copies else []
    parts += [f"{lost} not read"] if (lost := filled.new - rows - copies) else []
    parts += [f"{filled.known:,} there already"] if filled.known else []
    echo(plain(f"{tables}: {', '.join(parts)}; coldstep fleet report {tables}"))


class _Told:
    """How far it is, on stderr: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self.text = ""
        self._began = self._last = time.monotonic()
        self._bar = Progress(
            TextColumn("coldstep: {task.description}"), BarColumn(), TimeRemainingColumn(),
            console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
        )  # fmt: skip
        self._task = self._bar.add_task("looking", total=None)

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def tell(self, progress: filling.Progress) -> None:
        """So far it is now."""
        self.text = f"{progress.done:,} of {progress.of:,} are read"
        # by bytes, for these take the time
        self._bar.update(self._task, description=self.text, completed=progress.done_bytes, total=progress.of_bytes)
        now = time.monotonic()
        if self._bar.disable and now - self._last >= _TOLD_EVERY_S and progress.done < progress.of:
            self._last = now
            left = (now - self._began) * (progress.of_bytes - progress.done_bytes) / max(1, progress.done_bytes)
            say(f"{self.text}, about {duration(left * 1e9)} left")
