"""`coldstep merge`: the traces of a job's ranks on one timeline."""

from __future__ import annotations

from dataclasses import asdict

import click

from coldstep.analysis.ranks import compile_rank_ns
from coldstep.errors import TraceError
from coldstep.figures import count, duration, listed
from coldstep.loading import load
from coldstep.rewrite import merge
from coldstep_viewers.commands._output import echo, fail
from coldstep_viewers.commands._shared import echo_json
from coldstep_viewers.safe_text import plain

SCHEMA = "coldstep-merge/1"


@click.command("merge", short_help="The ranks of a job on one timeline.")
@click.argument("traces", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="OUT", help="Where the merged trace goes; replaced.")
@click.option("--json", "as_json", is_flag=True, help="Print clocks, findings and compile times as data.")
def command(traces: tuple[str, ...], output: str, as_json: bool) -> None:
    """Put the traces of a job's ranks onto one timeline, and say who compiled longer and who waited for it.

    Traces of one machine share its clock. That of another machine is laid on the first one's by the wall clocks of
    both; how well, is printed and noted in the merged trace, which every other command reads.

    \b
    Example:
      torchrun --nproc-per-node 4 --no-python coldstep run train.py
      coldstep merge train-rank*.pftrace -o train.pftrace
    """
    try:
        alignments = merge(traces, output)
        merged = load(output)
    except TraceError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    spent = list(compile_rank_ns(merged).values())
    if as_json:
        echo_json(
            {
                "schema": SCHEMA,
                "output": output,
                "clocks": [asdict(row) | {"text": row.how} for row in alignments],
                "compile_ns": spent,
                "findings": [asdict(row) for row in merged.findings],
            }
        )
        return
    if len(scripts := dict.fromkeys(alignment.script for alignment in alignments)) > 1:
        echo(plain(f"{listed(list(scripts))} are different programs: ranks of one job?"))
    for alignment in alignments:
        echo(plain(f"{alignment.name}: {alignment.how}"))
    for finding in merged.findings:
        if finding.kind == "straggler":
            echo(plain(finding.text))
    known = all(process.rank is not None for process in merged.processes)
    ranks = count(len(merged.processes), *(("rank",) if known else ("process", "processes")))
    echo(plain(f"{output}: {ranks}, {duration(sum(spent))} of compiling in all of them"))
