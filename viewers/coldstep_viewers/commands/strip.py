"""`coldstep strip`: a trace that can go into a public issue."""

from __future__ import annotations

import click

from coldstep.errors import TraceError
from coldstep.rewrite import strip
from coldstep_viewers.commands._output import echo, fail


@click.command("strip", short_help="A trace that can go into a public issue.")
@click.argument("trace")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where the stripped trace goes; replaced.")
def command(trace: str, output: str) -> None:
    """Remove or hash what only you may know: paths, source lines, values, host, command line, IR, environment.

    What stays is what a diagnosis needs: times, phases, the names of functions, arguments, dictionary keys, steps and
    annotations, types and shapes, versions, and the frameworks' words with everything quoted in them hashed. Equal
    values have equal hashes within one trace, so `coldstep report` finds the same causes. To publish the ranks of a
    job, merge first.

    \b
    Example:
      coldstep strip train.pftrace -o public.pftrace
      coldstep report public.pftrace
    """
    try:
        strip(trace, output)
    except TraceError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    echo(f"{output}: look at it before you publish it: coldstep report {output}")
