"""`coldstep compare`: one model in several stacks, ranked, with the reason under each number."""

from __future__ import annotations

import shutil
import sys

import click

from coldstep.analysis.across.frameworks import NotComparable, Stacks, compare
from coldstep.analysis.across.sweeps import Sweeps, sweep
from coldstep.analysis.programs import ir
from coldstep.analysis.programs.stablehlo import ParserError
from coldstep.model import Trace
from coldstep_viewers.commands.compare.programs import show_programs
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.inputs import all_loaded
from coldstep_viewers.commands.output import echo, echo_json, exit_with, fail, say_left_out
from coldstep_viewers.pages.frameworks_text import text, titles
from coldstep_viewers.pages.programs import data
from coldstep_viewers.pages.sweeps_text import text as sweeps_text

_LOG_WIDTH = 110
_ALONE = "Not compared: that takes two stacks that compile with XLA, recorded with --ir."


@click.command("compare", short_help="One model in several stacks: which is faster when, and why.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@findings("text", "json", "html")
@click.option("--ir", "programs", is_flag=True, help="Compare two programs of traces made with --ir.")
@click.option(
    "--by", "label", metavar="LABEL", help="Show a curve per stack over the values of this label (run --label n=64)."
)
def command(traces: tuple[str, ...], wanted: Wanted, programs: bool, label: str | None) -> None:
    """Rank stacks (frameworks with their compilers) that ran the same step, one trace each: by first, second and steady
    step, compiles, graphs per step, time by phase, memory and operations, with a reason for each number. For traces
    made with --ir, also show how their StableHLO differs.

    The step must have the same name in each trace.

    \b
    Example:
      coldstep compare jax.pftrace inductor.pftrace torch_xla.pftrace
      coldstep compare gpt2/*.pftrace -o gpt2.html
      coldstep compare --ir run.pftrace#jax run.pftrace#torch_xla
      coldstep compare gpt2/*.pftrace --format json | jq '.stacks[] | [.stack, .steady_ns]'
      coldstep compare --by n loop-8.pftrace loop-64.pftrace loop-512.pftrace

    With --ir, compare two programs of two traces: two compiles of one function, or the structure of two stacks'
    StableHLO. After the # of each trace, name what to compare: the id of a compile, a function, or a stack. If that
    leaves a choice between two stacks' programs, coldstep takes the most similar. If you give one trace twice, it
    compares each recompile with the compile that it replaces.

    With --by, compare traces of one program at several values of a label (coldstep run --label n=64). For each stack,
    show first and steady step, memory, compiles and their cause at each value; and the value at which the curve turns,
    and why.
    """
    wanted.keep([trace.rpartition("#")[0] or trace for trace in traces] if programs else traces)
    if programs and label is not None:
        fail("give --ir or --by, not both")
    if programs:
        if len(traces) != 2:
            fail("--ir compares two: give two traces, or one twice")
        show_programs(*traces, wanted.format)
        return
    named, lost = all_loaded(dict.fromkeys(traces))
    say_left_out(lost)
    try:
        if label is not None:
            _show_sweeps(sweep(label, named), wanted.format)
            exit_with(lost)
            return
        found = compare(named)
    except NotComparable as error:
        fail(str(error))
    pairs, without = compared_programs(found, dict(named))
    if wanted.format == "json":
        shown = [data(pair) | {"names": list(pair.names)} for pair in pairs]
        echo_json(found.to_json() | {"programs": shown, "not_compared": without})
    elif wanted.format == "html":
        from coldstep_viewers.pages.frameworks_page import (
            page,  # its template engine takes longer to import than a table
        )

        echo(page(found, pairs, " ".join(without)), commands=True)
    else:
        echo(text(found, pairs, " ".join(without), _width()))
    exit_with(lost)


def _show_sweeps(swept: Sweeps, form: str) -> None:
    if form == "json":
        echo_json(swept.to_json())
    elif form == "html":
        from coldstep_viewers.pages.sweeps_page import page  # its template engine takes longer to import than a table

        echo(page(swept), commands=True)
    else:
        echo(sweeps_text(swept, _width()))


def _width() -> int:
    return max(80, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _LOG_WIDTH


def compared_programs(found: Stacks, traces: dict[str, Trace]) -> tuple[list[ir.Pair], list[str]]:
    """The StableHLO of the fastest stack whose own can be read beside each other's; and which are not compared, and
    why, a sentence each."""
    kept, without = [], []
    for row, title in zip(found.rows, titles(found), strict=True):
        trace = traces[row.trace]
        if any("stablehlo" in known.programs for known in trace.details.values()):
            try:
                ir.check_stablehlo(trace)
                kept.append((title, trace))
            except ParserError as error:
                without.append(f"{title} is not compared: {error}.")
    if len(kept) < 2:
        return [], without or [_ALONE]
    pairs = []
    (base, first), *others = kept
    for title, other in others:
        try:
            pair = _most_alike(first, other, (base, title))
        except ParserError as error:
            without.append(f"{title} is not compared: {error}.")
            continue
        if pair is not None:
            pairs.append(pair)
        else:
            without.append(f"{title} is not compared: no product or the like in what it kept has its like in {base}.")
    return pairs, without


def _most_alike(first: Trace, other: Trace, names: tuple[str, str]) -> ir.Pair | None:
    """The programs of two stacks that have most in common; None where that is nothing. Raises ParserError."""
    found = [ir.compare(first, before, other, after, names) for before, after in ir.pairs(first, other)[:1]]
    return next((pair for pair in found if pair.structure is None or pair.structure.aligned), None)
