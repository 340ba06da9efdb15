"""All that is derived from the rows of a file, in the order in which one thing rests on another."""

from __future__ import annotations

from coldstep.analysis import breaks, cuda_graphs, memory
from coldstep.analysis.answers import answers
from coldstep.analysis.findings import findings
from coldstep.analysis.ready.readiness import readiness
from coldstep.analysis.recompiles.rows import recompiles
from coldstep.analysis.steps import eager_programs
from coldstep.analysis.steps import settling as steps_of
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import COMPILES, RECORDINGS
from coldstep.model import Trace
from coldstep.rows.intervals import kinds


def analyse(trace: Trace) -> Trace:
    """Fill in every derived row of `trace`, and return it."""
    memory.fill(trace)
    compiles = {compile_.id: compile_ for compile_ in trace.compiles}
    breaks.advise(trace)
    trace.recompiles = recompiles(trace)
    why = {row.compile: row for row in trace.recompiles}
    busy, recorded = steps_of.unsettled(trace), cuda_graphs.stories(trace)
    eager = eager_programs.repeated(trace)
    reads = {row.id for row in trace.graph_breaks if row.kind == "host_read"}
    surely = steps_of.unsettled(trace, steps_of.is_users_own)
    for (process, _), steps in kinds(trace.intervals, trace.unfinished).items():
        unseen = unknown(trace, COMPILES, process) or unknown(trace, RECORDINGS, process)
        settling = steps_of.settle(steps, busy, surely, unseen)
        steps_of.label(steps, settling, compiles, busy)
        others = [*cuda_graphs.causes(recorded, steps), *eager_programs.causes(eager, steps)]
        steps_of.causes(steps, settling, compiles, why, others, reads)
        trace.settling.append(settling)
        trace.cost.append(steps_of.cost(steps, settling, trace.processes[process]))
    if not trace.settling:
        trace.settling = steps_of.by_function(trace.compiles, trace.details, why)
    trace.readiness = readiness(trace)
    trace.findings = findings(trace)
    trace.answers = answers(trace)
    return trace
