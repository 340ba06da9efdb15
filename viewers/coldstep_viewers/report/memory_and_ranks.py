"""Memory, and the ranks of a job, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.figures import count, duration, size
from coldstep.analysis.across.ranks import compile_rank_ns
from coldstep.analysis.memory import of_steps
from coldstep.model import Trace
from coldstep.rows.intervals import kinds, unit
from coldstep.rows.processes import name
from coldstep_viewers.report.headline import verdict
from coldstep_viewers.report.ledger import from_log
from coldstep_viewers.report.sentences import variant_number
from coldstep_viewers.safe_text import short

_MOST_KINDS = 4
_MOST_PROGRAMS = 3
_MOST_RANKS = 64


def memory(trace: Trace, every: bool) -> Iterator[str]:
    """The peak and what the steady steps add; with `every` line the peaks of each kind of step and the largest compiled
    programs."""
    peak, device = trace.memory.peak_rss_bytes, trace.memory.device_peak_bytes
    if peak is not None:
        yield f"{size(peak)} resident at most" + (f", {size(device)} on the device" if device is not None else "")
    for row in of_steps(trace)[:_MOST_KINDS]:
        text = f"{_whose(trace, row.process)}{short(row.name)}: {size(row.peak_bytes)} at most, in step {row.peak_step}"
        if row.growth_bytes is not None:
            text += f"; {size(row.growth_bytes)} more with each steady step"
        if every or row.growth_bytes is not None:
            yield text
    if not every:
        return
    programs = [(row, row.memory) for row in trace.compiles if row.memory is not None]
    programs.sort(key=lambda program: -program[1].whole_bytes)
    again = {trace.details[each.id].identity for each in trace.compiles if each.reason == "recompile"}
    for of, needs in programs[:_MOST_PROGRAMS]:
        which = f", variant {variant_number(trace, of)}" if trace.details[of.id].identity in again else ""
        sizes = {"arguments": needs.argument_bytes, "results": needs.output_bytes, "temporaries": needs.temp_bytes}
        parts = {words: f"{words} {size(bytes_)}" for words, bytes_ in sizes.items() if bytes_ is not None}
        if needs.reused_bytes and "results" in parts:
            parts["results"] += f" ({size(needs.reused_bytes)} in place of arguments)"
        yield f"{_whose(trace, of.process)}the program of {short(of.function)}{which}: {', '.join(parts.values())}"


def ranks(trace: Trace) -> Iterator[str]:
    """A line for each rank, and what the compiling of all of them came to; nothing for a single process, or where
    a log does not show how long it compiled."""
    if len(trace.processes) < 2:
        return
    spent = compile_rank_ns(trace)
    if from_log(trace) and not any(spent.values()):
        return
    yield f"{duration(sum(spent.values()))} of compiling in all {count(len(trace.processes), 'rank')} together"
    for process in trace.processes[:_MOST_RANKS]:
        parts = [f"{duration(spent[process.index])} of compiling"]
        for cost in (row for row in trace.cost if row.process == process.index):
            settled = next(r for r in trace.settling if (r.process, r.name) == (process.index, cost.name))
            steps = kinds(trace.intervals)[process.index, cost.name]
            first = f"first {short(cost.name)} {duration(cost.first_step.wall_ns)}"
            parts.append(f"{first}, {verdict(settled, len(steps), unit(steps[0]))}")
        yield f"{name(trace, process.index)}: {'; '.join(parts)}"


def _whose(trace: Trace, process: int) -> str:
    return f"{name(trace, process)}, " if len(trace.processes) > 1 else ""
