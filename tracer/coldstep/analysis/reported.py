"""What to change about what collectors found themselves: with code, where the user's line is known."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.expressions import expression
from coldstep.analysis.make_finding import with_remedy
from coldstep.analysis.remedies.edits import with_callee
from coldstep.analysis.remedies.outermost import outermost_jitted
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, mended, remedies
from coldstep.analysis.remedies.uncalled import compiled, kept_beside
from coldstep.analysis.rules import keras
from coldstep.analysis.rules.registry import RULES
from coldstep.model import Finding, Location, Remedy, Trace

# coldstep: "f compiles on a thread where recompile_limit is 8, and not 64 as on the main one"
_LIMIT = expression(r" and not (\d+) as on the main one$")
_UNCALLED = "nobody called what torch.compile returned"
"""Begins the text on what the program may yet call."""
_UNCOMPILED = "PyTorch did not compile it"
"""Ends the text on a first call under a mode; on one of no module it comes with its advice."""
_IN_PLACE = Row(
    "Something calls the model itself (a method of its own such as generate does), and not what torch.compile "
    "returned: compile it in place, model.compile(), or the method that is called, model.predict = "
    'torch.compile(model.predict). Its state_dict() then has no "_orig_mod." before each key.',
    instead="{statement}",
)
_DROPPED = Row(
    "torch.compile leaves the model as it is: it returns the compiled one, and this line drops that. Keep it, "
    "model = torch.compile(model), or compile a module in place, model.compile().",
    instead="{statement}",
)
_BESIDE = Row(
    "torch.compile leaves {function} as it is, and nobody calls what this line keeps beside it: put the compiled one "
    "in its place, too, where the program calls {function}.",
    instead="{statement}",
)
_BY_FORWARD = Row(
    "{method} calls the model's forward itself, and not what torch.compile returned: compile forward. A deepcopy of "
    "the model would then run this one's forward: make it before.",
    instead="{statement}",
)
# coldstep: "predict of Tracker calls forward itself"
_CALLS_FORWARD = expression(r"^(\w+) of \S+ calls forward itself$")
_OUTSIDE = Row(
    "Make the first call outside of the mode: under it call the function or module itself, uncompiled.",
    instead="{statement}",
)
# coldstep: "<module> is compiled in 4 parts: its graph is divided at DDP's buckets of gradients"
_PARTS = expression(r" is compiled in (\d+) parts")
# coldstep: "f is jitted, but jax.vmap around it is not: each of 40 calls went through Python"
_AROUND = expression(r", but (jax\.\w+) around it is not")
_UNDIVIDED = Row(
    "PyTorch compiles a part for each bucket, so that gradients travel while the rest of the backward runs. Where "
    "compiling costs more than that saves, give DistributedDataParallel larger buckets, bucket_cap_mb=…, or let the "
    "graph be whole.",
    above="torch._dynamo.config.optimize_ddp = False",
)
_ON_THE_THREAD = Row(
    "PyTorch keeps its settings for each thread: set it again at the start of the function that the thread runs.",
    above="torch._dynamo.config.recompile_limit = {limit}",
)


def reported(trace: Trace) -> Iterator[Finding]:
    """The findings, with what to do; what a program that did not come to its end has not called, it might have."""
    for row in trace.reported:
        if not row.text.startswith(_UNCALLED) or trace.processes[row.process].ended == "ok":
            yield _with_what_to_do(trace, row)


def _divided(trace: Trace, row: Finding) -> Finding:
    """A graph that DDP divides: what its further parts took, and what to do."""
    compile_ = next((each for each in trace.compiles if each.id in row.refs), None)
    parts = _PARTS.search(row.text)
    if compile_ is None or parts is None:
        return with_remedy(row)
    row.location, row.step = compile_.caller or compile_.location, trace.intervals[compile_.segments[0].interval].step
    row.cost_ns = compile_.wall_ns - compile_.wall_ns // max(1, int(parts[1]))
    row.evidence = ["an estimate: the time of its compile, less one part's share of it"]
    caller = compile_.caller
    place = Place(caller, line=trace.code.get((caller.file, caller.line), "")) if caller is not None else NOWHERE
    return mended(row, remedies(_UNDIVIDED, Case(f"torch.split_graph:{compile_.function}", {}, place)))


def _with_what_to_do(trace: Trace, row: Finding) -> Finding:
    if row.kind == "split_graph":
        return _divided(trace, row)
    if row.kind == "stale_capture" and row.location is not None:
        return mended(row, keras.made_again(trace, row))
    if row.kind == "fast_path_miss":
        around = _AROUND.search(row.text)
        return mended(row, outermost_jitted(trace, row, around[1] if around else "jax.vmap"))
    if row.kind == "uncompiled" and (own := _of_a_stack(trace, row)):
        return mended(row, own)
    if row.location is None or row.kind not in ("uncompiled", "thread_limit"):
        return with_remedy(row)
    place = Place(row.location)
    id_ = f"torch.{row.kind}:{row.location.file}:{row.location.line}"
    if row.kind == "thread_limit":
        match = _LIMIT.search(row.text)
        return mended(row, remedies(_ON_THE_THREAD, Case(id_, {"limit": match[1] if match else ""}, place)))
    line = trace.code.get((row.location.file, row.location.line), "")
    if (made := _never_called(row, row.location, line)) is None:
        return with_remedy(row)
    chosen, names = made
    return mended(row, remedies(chosen, Case(id_, names, place)))


def _of_a_stack(trace: Trace, row: Finding) -> list[Remedy]:
    """What to do about what runs uncompiled, where one stack's own rules know it."""
    made = (of_stack(trace, row) for rules in RULES.values() for of_stack in rules.uncompiled)
    return next(filter(None, made), [])


def _never_called(row: Finding, at: Location, line: str) -> tuple[Row, dict[str, str]] | None:
    """What to do where nobody calls what torch.compile returned; None where the finding has its own advice."""
    is_module, given = not row.advice, compiled(line)
    if given is not None and given.is_dropped:
        is_seen = at.function == "<module>" or "." in given.given  # a function would make the name its own
        return _DROPPED, {"statement": given.in_place() if is_module else given.assigned() if is_seen else ""}
    if not is_module:
        function, statement = kept_beside(line)
        is_seen = at.function == "<module>" or "." in function
        return (_BESIDE, {"function": function, "statement": statement}) if function and is_seen else None
    if row.text.endswith(_UNCOMPILED):
        return _OUTSIDE, {"statement": with_callee(line, "_orig_mod")}
    if (by_forward := next(filter(None, map(_CALLS_FORWARD.search, row.evidence)), None)) is not None:
        return _BY_FORWARD, {"method": by_forward[1], "statement": given.assigned("forward") if given else ""}
    return _IN_PLACE, {"statement": given.in_place() if given else ""}
