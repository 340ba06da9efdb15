"""`coldstep strip`: a trace that can go into a public issue."""

from __future__ import annotations

from pathlib import Path

import click

from coldstep.converting.anonymise import new_salt
from coldstep.converting.rewrite import strip
from coldstep.errors import TraceError
from coldstep_viewers.commands.inputs import in_one_file, protect
from coldstep_viewers.commands.output import echo, exit_with, fail, give_up, say_left_out


@click.command("strip", short_help="Remove private data from a trace before you publish it.")
@click.argument("traces", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="OUT",
              help="Where the stripped trace goes (replaces a file), or the folder for several.")  # fmt: skip
@click.option("--keep-labels", is_flag=True, help="Keep the labels (--label, CI's, SLURM's …) unchanged.")
def command(traces: tuple[str, ...], output: str, keep_labels: bool) -> None:
    """Remove or hash private data: paths, source lines, values, host, command line, IR, environment, flags, labels.

    The trace keeps the names of functions, arguments, dictionary keys, steps and annotations; times, phases, types,
    shapes and versions; and the frameworks' messages, with everything quoted in them hashed. Within one call, equal
    values get equal hashes. So `coldstep report` shows the same causes, and `coldstep cache` the same misses. To
    publish the ranks of a job, merge them first.

    \b
    Example:
      coldstep strip train.pftrace -o public.pftrace
      coldstep strip monday.pftrace tuesday.pftrace -o public/
      coldstep report public.pftrace
    """
    salt, lost = new_salt(), []
    places = _places(traces, Path(output))
    for _, out in places:
        protect(traces, str(out))
    for trace, out in places:
        try:
            if len(traces) > 1:
                out.parent.mkdir(parents=True, exist_ok=True)
            with in_one_file(trace) as whole:
                strip(whole, str(out), salt, keep_labels=keep_labels)
        except TraceError as error:
            lost.append(str(error))
            continue
        except OSError as error:
            fail(f"cannot write {out}: {error.strerror}")
        echo(f"{out}: look at it before you publish it: coldstep report {out}")
    if len(lost) == len(traces):
        give_up(lost)
    say_left_out(lost)
    exit_with(lost)


def _places(traces: tuple[str, ...], output: Path) -> list[tuple[str, Path]]:
    """Where each trace goes."""
    if len(traces) == 1:
        return [(traces[0], output)]
    if len({Path(trace).name for trace in traces}) < len(traces):
        fail("two of the traces have one name: give the stripped ones a folder each")
    return [(trace, output / Path(trace).name) for trace in traces]
