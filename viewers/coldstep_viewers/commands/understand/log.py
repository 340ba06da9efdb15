"""`coldstep log`: the report and the trace of logs that were made without coldstep."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from coldstep._util.figures import percent, size
from coldstep._util.stderr import say
from coldstep.errors import TraceError
from coldstep.logs import STDIN, LeftOut, convert
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.inputs import loaded, opened
from coldstep_viewers.commands.output import echo, echo_pieces, fail, or_fail
from coldstep_viewers.commands.understand.report import show
from coldstep_viewers.report.json_rows import text
from coldstep_viewers.report.ledger import from_log
from coldstep_viewers.safe_text import plain

_SILENT_S = 2.0  # what is over so soon needs no word on its progress


@click.command("log", short_help="A report from logs that were made without coldstep.")
@click.argument("logs", nargs=-1, required=True, metavar="FILE…|FOLDER|-")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help="Where the trace goes. Default: the first log's name with .pftrace. It does not replace a run's trace.",
)
@findings("text", "json", writes=False)
def command(logs: tuple[str, ...], output: str | None, wanted: Wanted) -> None:
    """Diagnose a run from its logs: write a trace from them, which all other commands can read, and report on it.

    coldstep log reads the output of TORCH_LOGS=recompiles,graph_breaks,dynamic, the files of TORCH_TRACE, the output of
    JAX_EXPLAIN_CACHE_MISSES=1 and JAX_LOG_COMPILES=1, and the output of torch_xla's PT_XLA_DEBUG_LEVEL=2. Without any
    of these variables, it reads the messages that the frameworks print anyway: PyTorch's errors, autotuning and compile
    times; warnings about a recompile limit or about retracing; XLA's alarms about a slow compile; torch_xla's metrics;
    vLLM's compile times. The lines may have prefixes of a CI system or a launcher, and lines of other ranks between
    them. The report lists what such a log cannot show. From "-", coldstep log reads until the pipe ends, or until
    Ctrl-C. Exit code 2: a log could not be read.

    \b
    Example:
      coldstep log ci.log
      gh run view --log | coldstep log - -o ci.pftrace
      coldstep log torch_trace --format json | jq .recompiles
    """
    out = output or _free(Path(logs[0]).resolve() if logs[0] != STDIN else Path("log.txt"))
    progress = _Progress()
    with or_fail(f"cannot write {out}"):
        try:
            complaints = convert(logs, out, progress)
        finally:
            progress.end()
    trace = loaded(out)
    if wanted.format == "json":
        echo_pieces(text(trace, indent=2 if sys.stdout.isatty() else None))
    else:
        show(trace)
        echo(plain(f"\n{out}: the same as a trace, for coldstep open, check and diff"))
    for complaint in complaints:
        say(plain(complaint))
    sys.exit(2 if any(isinstance(text, LeftOut) for text in complaints) else 0)


def _free(log: Path) -> str:
    """The log's name, .pftrace; with its suffix where that is a trace of the run itself, or another file."""
    names = f"{log.stem}.pftrace", f"{log.name}.pftrace"
    free = next((name for name in names if not os.path.exists(name) or _is_of_a_log(name)), None)
    if free is None:
        fail(f"{' and '.join(names)} are no traces of logs: give the trace another name with -o")
    return free


def _is_of_a_log(path: str) -> bool:
    try:
        return os.path.isfile(path) and from_log(opened(path, job=False))
    except TraceError:
        return False


class _Progress:
    """Says on stderr how much has been read: on a terminal in one line, in a log from time to time."""

    def __init__(self) -> None:
        self._started = self._told = time.monotonic()
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._open = False

    def __call__(self, read: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._started < _SILENT_S or (not self._terminal and now - self._told < 5 * _SILENT_S):
            return
        self._told = now
        text = f"read {size(read)} of {size(total)}, {percent(read / total)}" if total else f"read {size(read)}"
        if self._terminal:
            print(f"\rcoldstep: {text} ", end="", file=sys.stderr, flush=True)
            self._open = True
        else:
            say(text)

    def end(self) -> None:
        """Begin a new line, for the text that follows."""
        if self._open:
            print(file=sys.stderr)
            self._open = False
