"""The story around a recompile's cause, where the trace proves one."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from coldstep._util.expressions import expression
from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.remedies.edits import statements
from coldstep.model import Interval, Recompile, Trace
from coldstep.rows.intervals import Alike, parts
from coldstep.signature import differences

_MODES = ("training_mode", "grad_mode", "autocast")
_RETURNED = ("dtype", "weak_type", "shape", "layout", "sharding", "device", "committed", "requires_grad")
FUNCTION = ("<function ", "<builtin_function_or_method ")
"""How the text of a function begins."""
# coldstep: "f32[8,4]"
_DIMS = expression(r"(?<=[\[,])[^,\]]+(?=[,\]])")
# coldstep: "size 4 at dimension 0"
_AT = expression(r"size \d+ at dimension (\d+)")
# coldstep: "list of 8"
_LENGTH = expression(r"(list|tuple) of \d+")
_BITS = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint", "c": "complex"}
# coldstep: "bf16"
_DTYPE = expression(r"(f|bf|i|u|c)(\d+)$")
_GROWN_EVENLY_RECOMPILES = 3  # by as much each time: fewer may be a coincidence
_GROWN_RECOMPILES = 6  # by however much each time, likewise


def pattern_of(row: Recompile, rows: list[Recompile], trace: Trace) -> str | None:
    """What happened to `row`, one of the `rows` of its identity: fed_back_output, last_batch, growing, mode_toggle,
    lazily_created, relaxed."""
    is_function = (row.after or "").startswith(FUNCTION)
    if row.cause == "type" and row.before == "None" and (not is_function or _sets(row, trace)):
        return "lazily_created"
    if row.cause == "shape" and _is_relaxed(row):
        return "relaxed"
    if row.cause == "shape" and _grows(row, rows):
        return "growing"
    if row.cause in _RETURNED and row.argument in trace.details[row.compile].fed_back:
        return "fed_back_output"
    if row.cause == "shape" and _is_last_batch(row, trace):
        return "last_batch"
    if (row.cause in _MODES or {row.before, row.after} == {"True", "False"}) and _comes_back(row, trace):
        return "mode_toggle"
    return None


def _sets(row: Recompile, trace: Trace) -> bool:
    """Whether the function that compiled again sets what was None: set elsewhere, it may alternate with None."""
    location = next(each.location for each in trace.compiles if each.id == row.compile)
    block = block_around(trace.blocks, location) if location is not None else None
    made = [node for node in ast.walk(block.tree) if isinstance(node, ast.Assign)] if block is not None else []
    return row.argument in {ast.unparse(target) for node in made for target in node.targets}


def dims(text: str | None) -> list[str]:
    """The dimensions in an abstract value."""
    return _DIMS.findall(f"{(text or '').partition(']')[0]}]")


def differing(before: str | None, after: str | None) -> list[int]:
    """The positions of the dimensions in which two abstract values differ; none where their ranks do."""
    if (at := _AT.fullmatch(before or "")) is not None:
        return [int(at[1])]
    old, new = dims(before), dims(after)
    return [i for i, (was, now) in enumerate(zip(old, new, strict=True)) if was != now] if len(old) == len(new) else []


def dtype_name(type_: str | None) -> str:
    """The name that NumPy gives a dtype: "f32[4]" → "float32"."""
    match = _DTYPE.match((type_ or "").partition("[")[0])
    return f"{_BITS[match[1]]}{match[2]}" if match is not None else ""


def is_zero_or_one(before: str | None, after: str | None) -> bool:
    """Whether the first dimension that differs is now of size 0 or 1."""
    sizes, at = dims(after), differing(before, after)
    return bool(at) and (sizes[at[0]] if sizes else (after or "").split()[1]) in ("0", "1")


def fields(before: str | None, after: str | None) -> tuple[list[str], list[str]]:
    """The fields that are other numbers in one of two texts of objects, "Cfg(lr=0.1, steps=3)", and those that are
    equal; none where the texts differ in anything else."""
    old, new = _fields(before), _fields(after)
    kinds = {(text or "").partition("(")[0] for text in (before, after)}
    if len(kinds) > 1 or old.keys() != new.keys():
        return [], []
    varying = [name for name in old if old[name] != new[name]]
    numbers = all(is_number(side[name]) for name in varying for side in (old, new))
    return (varying, [name for name in old if name not in varying]) if numbers else ([], [])


def _fields(text: str | None) -> dict[str, str]:
    match statements(text or ""):
        case [ast.Expr(value=ast.Call(func=ast.Name(), args=[], keywords=given))]:
            return {f"{each.arg}": ast.unparse(each.value) for each in given}
    return {}


def is_longer_alone(argument: str, before: str | None, after: str | None, inputs: Mapping[str, str]) -> bool:
    """Whether two lists differ in their lengths alone: the elements of the later one, by path, are of one type, or
    numbers. `before`: "list of 8"."""
    kinds = [match[1] for text in (before, after) if (match := _LENGTH.fullmatch(text or "")) is not None]
    held = {path: type_ for path, type_ in inputs.items() if path.startswith(f"{argument}[")}
    direct = all(path.removeprefix(argument)[1:-1].isdecimal() for path in held)
    alike = len({*held.values()}) == 1 or all(map(is_number, held.values()))
    return len(kinds) == 2 and kinds[0] == kinds[1] and bool(held) and direct and alike


def is_number(text: str | None) -> bool:
    """Whether a value's text is that of a number."""
    try:
        float(text or "")
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)  # each recompile is held against all others of its identity
def _sizes(before: str | None, after: str | None) -> tuple[int, int] | None:
    """The one dimension that differs, before and after; None where there is not exactly one."""
    old, new, at = dims(before), dims(after), differing(before, after)
    if len(at) != 1 or not old or not (old[at[0]].isdigit() and new[at[0]].isdigit()):
        return None
    return int(old[at[0]]), int(new[at[0]])


def _is_relaxed(row: Recompile) -> bool:
    """Whether a dimension that had a size is open now."""
    new = dims(row.after)
    return any(new[at] == "None" for at in differing(row.before, row.after)) if new else False


def _grows(row: Recompile, rows: list[Recompile]) -> bool:
    pairs = [_sizes(r.before, r.after) for r in rows if r.argument == row.argument and r.cause == "shape"]
    grown = [pair for pair in pairs if pair is not None and 0 < pair[0] < pair[1]]
    if len(grown) < _GROWN_EVENLY_RECOMPILES or len(grown) < len(pairs):
        return False
    evenly = len({now - was for was, now in grown}) == 1 or len({now / was for was, now in grown}) == 1
    return evenly or len(grown) >= _GROWN_RECOMPILES


def _is_last_batch(row: Recompile, trace: Trace) -> bool:
    """Whether the last step of its kind, and no other, has fewer."""
    sizes, at = _sizes(row.before, row.after), trace.intervals[row.interval]
    if sizes is None or sizes[1] >= sizes[0] or at.kind != "step":
        return False
    last = _last_index(trace, at)
    return last is not None and last <= at.index


def _comes_back(row: Recompile, trace: Trace) -> bool:
    """Whether the function was called the old way again: in a further variant, or in a later step of the kind in
    which it was compiled that way, while this compile was in none such."""
    position = {compile_.id: at for at, compile_ in enumerate(trace.compiles)}
    if row.previous is None:
        return False
    old, new = trace.details[row.previous].signature, trace.details[row.compile].signature
    for later in trace.compiles[position[row.compile] + 1 :]:
        known = trace.details[later.id]
        if later.process == row.process and known.identity == trace.details[row.compile].identity:
            signature = known.signature
            as_new, as_old = (
                any((c.mechanism, c.argument) == (row.cause, row.argument) for c in differences(one, signature))
                for one in (new, old)
            )
            if as_new and not as_old:
                return True
    first = trace.compiles[position[row.previous]].segments[0].interval
    was, now = trace.intervals[first], trace.intervals[row.interval]
    elsewhere = (now.kind, now.process, now.name) != (was.kind, was.process, was.name)
    last = _last_index(trace, was) if was.kind == "step" and elsewhere else None
    return last is not None and last >= row.interval


def _last_index(trace: Trace, step: Interval) -> int | None:
    """The index of the last step of that kind."""
    kind = step.process, step.name
    of_name = (part for part in reversed(parts(trace.intervals)) if (part.process, part.name) == kind)
    part = next((part for part in of_name if isinstance(part, Alike) or part.kind == "step"), None)
    if part is None:
        return None
    return part.index + len(part) - 1 if isinstance(part, Alike) else part.index
