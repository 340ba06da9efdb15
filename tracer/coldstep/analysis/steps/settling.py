"""At which step a kind of step stopped compiling, what its steady steps cost, and so every step's label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from coldstep._util.gathered import gathered
from coldstep._util.median import median, quartiles
from coldstep.analysis.make_finding import ENDED, what_changed, without_recompile
from coldstep.analysis.rules.torch_xla import READ_AFTER_SYNC
from coldstep.analysis.steps import eager_programs
from coldstep.model import (
    Compile,
    Cost,
    Details,
    FirstStep,
    PhaseShare,
    Process,
    Recompile,
    Settling,
    SettlingCause,
    StepLabel,
    Trace,
    Verdict,
)
from coldstep.rows.intervals import Alike, Steps, alone
from coldstep.rows.variants import counts

QUIET_STEPS = 3  # steps in a row that compile nothing: then it has settled
_NOT_SETTLED_STEPS = 6  # steps after which it counts as not settled, rather than as too short to tell
_WARM_FACTOR = 1.5
_STORIES = {
    "optimizer_state": "; the optimizer had made its state meanwhile",
    "gradient_state": "; gradients are None before the first backward, and after zero_grad()",
}
_WHOSE = "whether what compiled was a function of the program's own could not be seen"
_CALL_FIRST = "Call it once before the loop, if its compile shall not fall into a step."
_BACKWARD_FIRST = "Run one forward and backward before the loop, if the compile shall not fall into a step."


def is_users_own(compile_: Compile) -> bool:
    """Whether a compile counts, and is known to be of one of the user's own functions."""
    return compile_.origin is not None and counts(compile_)


def unsettled(trace: Trace, counts: Callable[[Compile], bool] = counts) -> set[int]:
    """The intervals (by index) that did what a settled step does not: compile, be it an eager operation that does so
    again and again, or record a CUDA graph."""
    compiles = {row.id: row for row in trace.compiles}
    compiled = {row.index for row in alone(trace.intervals) if any(counts(compiles[c]) for c in row.compiles)}
    compiled |= eager_programs.unsettled(eager_programs.repeated(trace))
    return compiled | {graph.interval for graph in trace.cuda_graphs}


def settle(steps: Steps, busy: set[int], surely: set[int], unseen: str | None) -> Settling:
    """The verdict on the steps of one name, in their order; `busy` is what `unsettled` returns, `surely` the same for
    functions that are known to be the user's own, `unseen` why something may have compiled that is in neither.

    A compile that was seen stays proven where not everything was seen; that nothing compiled does not."""
    settled = _first_quiet(steps, busy)
    without: Verdict = "not_settled" if len(steps) >= _NOT_SETTLED_STEPS else "too_few_steps"
    verdict: Verdict = "settled" if settled is not None else without
    why = None
    if verdict == "settled" and unseen is not None:
        verdict, settled, why = "not_observable", None, unseen
    elif verdict == "not_settled" and _first_quiet(steps, surely) is not None:
        verdict, why = "not_observable", unseen or _WHOSE
    times = steps.walls()
    warmest = _WARM_FACTOR * median(times[settled:]) if settled is not None else 0
    starts = range(len(times) - QUIET_STEPS + 1 if settled is not None else 0)
    warm = next((i for i in starts if max(times[i : i + QUIET_STEPS]) <= warmest), None)
    return Settling(
        process=steps[0].process,
        name=steps[0].name or "",
        by="step",
        verdict=verdict,
        settled_at_step=steps[settled].step if settled is not None else None,
        warm_at_step=steps[warm].step if warm is not None else None,
        causes=[],
        why=why,
    )


def _first_quiet(steps: Steps, busy: set[int]) -> int | None:
    """The position of the first step that begins a row of quiet ones."""
    at = quiet = 0
    for part in steps.parts:
        if isinstance(part, Alike):
            at, quiet = at + part.steps, quiet + part.steps
        else:
            at, quiet = at + 1, 0 if part.index in busy else quiet + 1
        if quiet >= QUIET_STEPS:
            return at - quiet
    return None


def causes(
    steps: Steps,
    settling: Settling,
    compiles: dict[str, Compile],
    why: dict[str, Recompile],
    recorded: Iterable[SettlingCause],
    reads: Collection[str],
) -> None:
    """List what compiled before the settled step, the first step's own compiles aside, and why; and of all later steps
    the CUDA graphs that were `recorded`, and the backwards that were compiled in a later step than their forwards: they
    count for the forward's step, but a later one paid. `reads` are the graph breaks (by id) of a host read."""
    until = settling.settled_at_step
    late = list(_late_backwards(steps, compiles.values()))
    for step in (step for step in steps.alone() if step.index != steps[0].index):
        if until is None or (step.step or 0) < until:
            counted = (compiles[c] for c in step.compiles if counts(compiles[c]))
            settling.causes += [_cause(step.step, compile_, why.get(compile_.id), reads) for compile_ in counted]
        settling.causes += [_late(step.step, compile_) for at, compile_ in late if at == step.index]
    settling.causes = sorted([*settling.causes, *recorded], key=lambda cause: cause.step or 0)


def _late_backwards(steps: Steps, compiles: Iterable[Compile]) -> Iterator[tuple[int, Compile]]:
    """Each compile whose backward began in one of these steps, and its forward before it."""
    indices = {step.index for step in steps.alone()}
    for compile_ in compiles:
        began = next((s.interval for s in compile_.segments if s.part == "backward"), None)
        if began in indices and began != compile_.segments[0].interval and counts(compile_):
            yield began, compile_


def by_function(
    compiles: Iterable[Compile], details: Mapping[str, Details], why: dict[str, Recompile]
) -> list[Settling]:
    """Where no step is marked: a row for each of the user's functions, with its recompiles; its calls are not seen."""
    functions = gathered(
        ((compile_.process, details[compile_.id].identity), compile_) for compile_ in compiles if is_users_own(compile_)
    )
    return [
        Settling(
            process=process,
            name=rows[0].function,
            by="function_call",
            verdict="not_observable",
            settled_at_step=None,
            warm_at_step=None,
            causes=[_cause(None, row, why[row.id]) for row in rows if row.id in why],
            why="no step was marked, and calls that compile nothing are not seen",
        )
        for (process, _), rows in functions.items()
    ]


def _cause(step: int | None, compile_: Compile, why: Recompile | None, reads: Collection[str] = ()) -> SettlingCause:
    when = f" in step {step}" if step is not None else ""
    if why is None and compile_.caused_by in reads:
        text = f"{compile_.function} compiled{when} (host_read): no value was read there before, now one is"
        return SettlingCause(step, compile_.id, "host_read", text, [], READ_AFTER_SYNC)
    if why is None:
        what = without_recompile(compile_)
        advice = _CALL_FIRST if compile_.outcome not in ENDED else ""
        if compile_.origin is None:
            what, when, advice = "was compiled", f"{when}; whose function it is could not be seen", ""
        return SettlingCause(step, compile_.id, None, f"{compile_.function} {what}{when}", [], advice)
    change = f": {what_changed(why)}" if why.argument else ""
    text = f"{compile_.function} compiled again{when} ({why.cause}){change}{_STORIES.get(why.cause, '')}"
    return SettlingCause(step, compile_.id, why.cause, text, why.evidence, why.advice)


def _late(step: int | None, compile_: Compile) -> SettlingCause:
    text = f"the backward of {compile_.function} was compiled in step {step}, by the first .backward() through it"
    return SettlingCause(step, compile_.id, None, text, [], _BACKWARD_FIRST)


def label(steps: Steps, settling: Settling, compiles: dict[str, Compile], busy: set[int]) -> None:
    """Give each step of one name its label; `busy` is what `unsettled` returns. Where settling could not be observed,
    the steps in which nothing was seen to compile have none."""
    for step in steps.parts:
        if isinstance(step, Alike):
            step.label = _quiet(settling, step.step)
            continue
        compiled = [compiles[c] for c in step.compiles if counts(compiles[c])]
        if step.step == 0:
            step.label = "first"
        elif settling.verdict == "not_observable":
            again = any(c.reason == "recompile" for c in compiled)
            step.label = "recompiled" if again else "compiled" if step.index in busy else None
        elif settling.settled_at_step is None or (step.step or 0) < settling.settled_at_step:
            step.label = "settling"
        elif any(c.reason == "recompile" for c in compiled):
            step.label = "recompiled"
        else:
            step.label = "compiled" if step.index in busy else "steady"


def _quiet(settling: Settling, n: int) -> StepLabel | None:
    """The label of a step that compiled nothing."""
    if settling.verdict == "not_observable":
        return None
    return "settling" if settling.settled_at_step is None or n < settling.settled_at_step else "steady"


def cost(steps: Steps, settling: Settling, process: Process) -> Cost:
    """First-run cost of the steps of one name. The first step's time ends with it; settled time ends where the
    settled step begins."""
    first = steps[0]
    steady = sorted(steps.labelled("steady").walls())
    settled = steps.numbered(settling.settled_at_step) if settling.settled_at_step is not None else None
    is_known = len(steady) >= 3
    low, high = quartiles(steady) if is_known else (0, 0)
    whole = first.wall_ns or 1
    since_began = process.before_trace_ns - process.start_ns  # in a job's trace, where all counts from its first
    return Cost(
        process=process.index,
        name=first.name or "",
        time_to_first_step_ns=since_began + first.start_ns + first.wall_ns,
        time_to_settled_ns=since_began + settled.start_ns if settled else None,
        steady_step_ns=round(median(steady)) if is_known else None,
        steady_spread_ns=round(high - low) if is_known else None,
        first_step=FirstStep(
            interval=first.index,
            wall_ns=first.wall_ns,
            attributed_share=1 - first.unattributed_ns / whole,
            phases=[PhaseShare(phase, ns, ns / whole) for phase, ns in Counter(first.phases).most_common()],
        ),
    )
