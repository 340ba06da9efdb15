"""Why a compile happened again: the two signatures compared, and held against the framework's own words."""

from __future__ import annotations

import re

from coldstep.model import Change, Compile, Recompile, Trace
from coldstep.signature import differences

_TENSOR_GUARD = re.compile(r"tensor '(?P<argument>.+?)' (?P<what>size|rank|dtype) mismatch")
_DIMS = re.compile(r"(?<=[\[,])[^,\]]+(?=[,\]])")
_MECHANISMS = {"size": "shape", "rank": "shape", "dtype": "dtype"}
_SIZE_GUARD = re.compile(r"(?P<argument>.+?)\.size\(\)\[\d+\]")

_ONE_SHAPE = "Keep the shape of {argument} fixed: pad the last batch, or drop it (drop_last=True)."
_SHAPE_ADVICE = {
    "jax": _ONE_SHAPE + " JAX compiles once for each shape.",
    "dynamo": "Mark the dimension that varies before the first call, torch._dynamo.mark_dynamic({argument}, {dim}); or "
    "pad the last batch, or drop it (drop_last=True).",
    "torch_xla": _ONE_SHAPE + " XLA compiles once for each shape.",
}
_DTYPE_ADVICE = "Give {argument} one dtype at every call: cast it once, where the data is made."


def recompiles(trace: Trace) -> list[Recompile]:
    """One row per further compile of an identity."""
    by_id = {compile_.id: compile_ for compile_ in trace.compiles}
    again = [c for c in trace.compiles if c.reason == "recompile"]
    return [_row(trace, number, compile_, by_id) for number, compile_ in enumerate(again)]


def _row(trace: Trace, number: int, compile_: Compile, by_id: dict[str, Compile]) -> Recompile:
    previous = by_id.get(trace.previous.get(compile_.id, ""))
    changes = differences(trace.signatures[previous.id], trace.signatures[compile_.id]) if previous is not None else []
    guards = trace.guard_failures.get(compile_.id, [])
    framework_id = trace.framework_ids.get(previous.id) if previous else None
    change, proven = _cause(compile_.stack, changes, _guards_of(guards, framework_id))
    interval = compile_.segments[0].interval
    evidence = list(guards)
    if change is None:
        evidence += [f"{c.argument}: {c.before} → {c.after}" for c in changes]
        if not evidence:
            evidence = ["both signatures are equal in all that could be seen"]
    cause = change.mechanism if change else "unknown"
    argument = change.argument if change else None
    return Recompile(
        id=f"r{number}",
        process=compile_.process,
        compile=compile_.id,
        previous=previous.id if previous else None,
        interval=interval,
        step=trace.intervals[interval].step,
        cause=cause,
        pattern=None,
        argument=argument,
        before=change.before if change else None,
        after=change.after if change else None,
        changes=changes,
        evidence=evidence,
        confidence="proven" if proven else "inferred",
        advice=_advice(compile_.stack, change) if change else "",
        cost_ns=compile_.wall_ns,
    )


def _advice(stack: str, change: Change) -> str:
    """What to change in the program."""
    if change.mechanism == "dtype":
        return _DTYPE_ADVICE.format(argument=change.argument)
    dims = [_DIMS.findall(text or "") for text in (change.before, change.after)]
    differing = [i for i, (old, new) in enumerate(zip(*dims, strict=False)) if old != new]
    dim = differing[0] if len(dims[0]) == len(dims[1]) and differing else "dim"
    return _SHAPE_ADVICE.get(stack, _ONE_SHAPE).format(argument=change.argument, dim=dim)


def _cause(stack: str, changes: list[Change], guards: list[str]) -> tuple[Change | None, bool]:
    """The change that explains the miss, and whether that is proven; None where nothing shown explains it.

    Where the framework says which guard failed, only a change that the guard speaks of can be the cause: a
    dynamic dimension may differ, too, without having compiled anything. JAX compiles anew for any other shape or
    dtype.
    """
    simple = [change for change in changes if change.mechanism in ("shape", "dtype")]
    for guard in guards:
        for change in simple:
            if _speaks_of(guard, change):
                return change, True
    if simple and not guards and (stack == "jax" or len(simple) == len(changes)):
        return simple[0], stack == "jax"
    return None, False


def _speaks_of(guard: str, change: Change) -> bool:
    if match := _TENSOR_GUARD.search(guard):
        return match["argument"] == change.argument and _MECHANISMS[match["what"]] == change.mechanism
    if change.mechanism == "shape":
        return any(match["argument"].endswith(change.argument or "\0") for match in _SIZE_GUARD.finditer(guard))
    return False


def _guards_of(guards: list[str], framework_id: str | None) -> list[str]:
    """The words on the variant that this compile is compared with; all of them where none names it."""
    mine = [text for text in guards if framework_id and text.startswith(f"{framework_id}:")]
    return mine or guards
