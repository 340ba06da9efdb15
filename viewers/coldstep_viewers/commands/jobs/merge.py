"""`coldstep merge`: the traces of a job's ranks on one timeline."""

from __future__ import annotations

import re
from dataclasses import asdict

import click

from coldstep._util.figures import count, duration, listed, numbers
from coldstep.analysis.across.rank_choice import MOST, chosen, kind
from coldstep.analysis.across.ranks import compile_rank_ns
from coldstep.converting.rewrite import merge, ranks_in
from coldstep.errors import TraceError
from coldstep.job.parts import parts_of
from coldstep.loading import load
from coldstep.recording.garbage import none_collected
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.inputs import readable
from coldstep_viewers.commands.output import echo, echo_json, exit_with, or_fail, say_left_out
from coldstep_viewers.safe_text import plain

SCHEMA = "coldstep-merge/1"
# Shell: "0,7,16-19"
_RANKS = re.compile(r"\d{1,7}(?:-\d{1,7})?(?:,\d{1,7}(?:-\d{1,7})?)*")


@click.command("merge", short_help="The ranks of a job on one timeline.")
@click.argument("traces", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="OUT", help="Where the merged trace goes (replaces a file).")
@click.option("--ranks", metavar="N,N-N", help="Only these ranks, if the job has more than fit.")
@findings("text", "json", writes=False)
def command(traces: tuple[str, ...], output: str, ranks: str | None, wanted: Wanted) -> None:
    """Put the traces of a job's ranks onto one timeline, and show who compiled longer and who waited for it.

    Traces from one machine share its clock. coldstep aligns traces from several machines by their wall clocks. It
    prints how exact the alignment is, and notes it in the merged trace, which all other commands can read.

    If there are more than 16 traces, coldstep takes those that differ (in what they compiled, why, or how they ended),
    and one of each group of similar ones. --ranks takes others.

    \b
    Example:
      torchrun --nproc-per-node 4 --no-python coldstep run train.py
      coldstep merge train-rank*.pftrace -o train.pftrace
      coldstep merge train-rank*.pftrace -o train.pftrace --ranks 0,7,16-19
    """
    lost: list[str] = []
    with or_fail(f"cannot write {output}"):
        taken, why = _taken(_of_jobs(traces), ranks, lost)
        alignments = merge(taken, output, lost)
        merged = load(output)
    say_left_out(lost)
    spent = list(compile_rank_ns(merged).values())
    if wanted.format == "json":
        clocks = [asdict(row) | {"text": row.how} for row in alignments]
        about = {"schema": SCHEMA, "output": output, "taken": why, "clocks": clocks, "compile_ns": spent}
        echo_json(about | {"findings": [asdict(row) for row in merged.findings]})
        exit_with(lost)
        return
    if why:
        echo(plain(why))
    if len(scripts := dict.fromkeys(alignment.script for alignment in alignments)) > 1:
        echo(plain(f"{listed(list(scripts))} are different programs: ranks of one job?"))
    for alignment in alignments:
        echo(plain(f"{alignment.name}: {alignment.how}"))
    for finding in merged.findings:
        if finding.kind == "straggler":
            echo(plain(finding.text))
    known = all(process.rank is not None for process in merged.processes)
    number = count(len(merged.processes), *(("rank",) if known else ("process", "processes")))
    echo(plain(f"{output}: {number}, {duration(sum(spent))} of compiling in all of them"))
    exit_with(lost)


def _of_jobs(traces: tuple[str, ...]) -> tuple[str, ...]:
    """The same, in the place of a job's FILE all its parts, each once."""
    parts = [parts_of(trace) for trace in traces]
    if all(part == [trace] for trace, part in zip(traces, parts, strict=True)):
        return traces
    return tuple(dict.fromkeys(each for part in parts for each in part))


def _taken(traces: tuple[str, ...], asked: str | None, lost: list[str]) -> tuple[list[str], str]:
    """Those that are merged, and in words why only these; "" where they are all. Of those that cannot be read, `lost`
    is told why. Raises TraceError."""
    if asked is not None:
        wanted = _numbers(asked)
        taken = [path for path, ranks in readable(traces, ranks_in, lost) if wanted & set(ranks)]
        if not taken:
            raise TraceError(f"--ranks {asked}: none of the traces is of such a rank")
        return taken, ""
    if len(traces) <= MOST:
        return list(traces), ""
    rows = list(readable(traces, _about, lost))
    if not rows:
        raise TraceError(lost.pop())
    kinds, names = [found for _, (found, _) in rows], [rank for _, (_, rank) in rows]
    found = chosen(kinds)
    every = all(name is not None for name in names)
    named = "ranks" if every else "traces"

    def said(places: list[int]) -> str:
        return numbers(names[at] or 0 if every else at for at in places)

    parts = [f"{said(found.differ)} differ"] if found.differ else []
    parts += [f"{said([at])} is one of {number} alike" for at, number in found.stand_for.items()]
    words = f"{len(found.taken)} of {len(rows)} {named}: {', '.join(parts)}; --ranks takes others"
    return [rows[at][0] for at in found.taken], words


def _about(path: str) -> tuple[str, int | None]:
    """What kind of rank a trace is of, and its number."""
    with none_collected():
        trace = load(path, job=False)
    return kind(trace), trace.processes[0].rank


def _numbers(text: str) -> set[int]:
    if _RANKS.fullmatch(text) is None:
        raise TraceError(f"--ranks {text} are no ranks, such as 0,7,16-19")
    ends = [part.partition("-") for part in text.split(",")]
    return {number for first, _, last in ends for number in range(int(first), int(last or first) + 1)}
