"""What every analysis that finds something shares: a finding in one call, and its phrases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from coldstep._util.figures import listed
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case
from coldstep.analysis.remedies.table import advice as advice_of
from coldstep.analysis.remedies.table import remedies as made
from coldstep.model import Compile, Finding, How, Interval, Location, Recompile, Remedy, Severity, Trace
from coldstep.rows.variants import cache_of

_ALWAYS_SOMETHING = (
    "python_scalar", "module_attribute", "global", "closure", "static_argument", "optimizer_state", "gradient_state",
    "container", "identity", "type", "shape", "layout",
)  # fmt: skip
MARK = "For "
"""How a remedy begins that is for one of several causes."""
MOST_NAMED = 5
"""Functions, or changes of a value, that one sentence names."""
NO_GRAPH = "torch.compile compiled no graph"
"""Begins the text on a program that torch.compile leaves as it was."""
ENDED = {"limit": "reached its limit of variants", "failed": "failed to compile"}
"""By its outcome, what a compile came to that gave no program."""
_MAX_VALUES = 8  # of a sequence that are told


class About(TypedDict, total=False):
    """What a finding has beside its text, its interval and its place; each as `Finding` has it, and of its advice the
    `how` of the remedy that it is."""

    process: int
    severity: Severity
    cost_ns: int
    evidence: list[str]
    advice: str
    refs: list[str]
    how: How
    remedies: list[Remedy] | None


def finding(
    kind: str, text: str, *, at: Interval | None = None, location: Location | None = None, **about: Unpack[About]
) -> Finding:
    """A finding without its id, which `findings` gives it; without `remedies`, `advice` is the one, and is of `how`;
    without `advice` the remedies' sentences are. It is of the process and the step of the interval `at`, where that is
    given."""
    of, interval, step = (at.process, at.index, at.step) if at is not None else (about.get("process", 0), None, None)
    severity, cost_ns, remedies = about.get("severity", "warning"), about.get("cost_ns", 0), about.get("remedies")
    advice = about.get("advice") or advice_of(remedies or [])
    row = Finding(
        "", of, kind, severity, interval, step, cost_ns, location, text, about.get("evidence", []), advice,
        about.get("refs", []), remedies or [],
    )  # fmt: skip
    return with_remedy(row, about.get("how", "edit")) if remedies is None else row


def with_remedy(row: Finding, how: How = "edit") -> Finding:
    """The finding, with its advice as the one remedy."""
    if row.advice and not row.remedies:
        place = f":{row.location.file}:{row.location.line}" if row.location is not None else ""
        row.remedies = made(Row("{advice}", how), Case(f"{row.kind}{place}", {"advice": row.advice}))
    return row


def of_compile(trace: Trace, row: Compile, kind: str, text: str, **about: Unpack[About]) -> Finding:
    """A finding about one compile, where and when it began; its cost and itself unless given."""
    whole = About(cost_ns=row.wall_ns, refs=[row.id]) | about
    at, location = trace.intervals[row.segments[0].interval], row.caller or row.location
    return finding(kind, text, at=at, location=location, **whole)


def kept_with(trace: Trace, row: Compile) -> tuple[int, str, str | None]:
    """Equal for the variants of one function that are kept side by side: in PyTorch, those between two resets."""
    known = trace.details[row.id]
    return row.process, known.identity, cache_of(row.stack, known.signature)


def without_recompile(row: Compile) -> str:
    """What became of a compile that is no recompile: "compiled for the first time"."""
    return ENDED.get(row.outcome, "compiled for the first time")


def in_step(row: Interval) -> str:
    """ " in step 7", " in step 7 of val"; nothing outside the steps."""
    if row.step is None:
        return ""
    return f" in step {row.step}" + (f" of {row.name}" if row.name not in (None, "step") else "")


def alike(row: Recompile) -> list[str]:
    """The cause, and whatever else differed in the same place."""
    place = row.argument, row.before, row.after
    same = [each.mechanism for each in row.changes if (each.argument, each.before, each.after) == place]
    return list(dict.fromkeys([row.cause, *same] if row.cause in same else [row.cause]))


def chain(values: Sequence[str]) -> str:
    """ "a → b → c"; of many, the first and the last."""
    if len(values) > _MAX_VALUES:
        values = [*values[: _MAX_VALUES - 2], "…", values[-1]]
    return " → ".join(values)


def what_changed(row: Recompile) -> str:
    """ "x was f32[4], now f32[6]"; nothing where no more than the cause is known."""
    if not (row.before or row.after):
        return without_values(row.cause, row.argument)
    before, after = both_values(row)
    return f"{row.argument} was {before}, now {after}" if row.argument else f"{before} → {after}"


def without_values(cause: str, argument: str | None) -> str:
    """What differed, where a log's words name the place and neither of its values."""
    return f"another object in {argument}" if cause == "identity" and argument else argument or ""


def whose(cause: str, argument: str | None, compile_: Compile) -> str:
    """What differed, by name: an argument, the function itself, or else the cause."""
    return argument or (compile_.function if cause == "new_function" else cause)


def marked(causes: Sequence[tuple[str, str, list[Remedy]]]) -> tuple[str, list[Remedy]]:
    """The advice for several causes, each with whose it is, and its remedies: "For x: …", where one is not for all."""
    several = Counter(name for name, _, _ in causes)
    of: dict[object, tuple[Remedy, list[str]]] = {}
    whole = set()
    for name, cause, remedies in causes:
        label = f"the {cause} of {name}" if several[name] > 1 else name
        whole.add(label)
        for each in remedies:
            of.setdefault((each.text, each.code, str(each.location)), (each, []))[1].append(label)
    rows = [
        each if whole == {*names} else replace(each, text=f"{MARK}{listed(names, MOST_NAMED)}: {each.text}")
        for each, names in of.values()
    ]
    return ("\n" if len(whole) > 1 else " ").join(advice_of([each]) for each in rows), rows


def both_values(row: Recompile) -> tuple[str, str]:
    """The values before and now; of a guard in a log one may not be known."""
    missing = "not known" if row.cause in _ALWAYS_SOMETHING else "none"
    return row.before or missing, row.after or missing
