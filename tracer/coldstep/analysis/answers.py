"""What to change first: the findings that a change of the user's would mend, one for each story, the dearest first.

A compile that ended the run by failing is before all others, then what keeps torch.compile from compiling anything.
What an initialisation pays once comes behind what goes on in the steps, unless it is far dearer.

A graph break, the recompiles of what follows it and a limit that these reach are one story: it has one answer, that of
the finding with which it ends if that is followed.
"""

from __future__ import annotations

from coldstep._util.figures import times
from coldstep._util.gathered import gathered
from coldstep.analysis.make_finding import NO_GRAPH, in_step
from coldstep.analysis.rules.registry import rules_of
from coldstep.analysis.steps.eager_programs import is_paid_once
from coldstep.model import Answer, Compile, Finding, Trace

MOST = 5
_LEAST_SHARE, _LEAST_SHARE_AGAIN = 0.01, 0.002  # of all that compiled: less is worth no change
_LEAST_NS = 1_000_000
_GOES_ON = 10  # times what was seen: the trace ends after a few steps, where what they pay, or a run like them, goes on
_MANY, _MANY_EACH_STEP = 20, 10  # small programs of an initialisation, and in each step: fewer are worth no change,
_DEAR_NS = 1_000_000_000  # unless they take so long
# Compiles that an open size or number spares: the one that takes their place costs up to two of them more.
_MANY_SPARED = 6
_EVERY_CALL = {
    "captured_constants",
    "fast_path_miss",
    "silent_eager",
    "uncompiled",
    "skipped_forever",
    "stale_capture",
    "thread_limit",
    "literal_equal",
}
"""Kinds that are paid, or go wrong, in each call: they count even where what they cost is not known."""
_NO_ANSWER = {"blind", "not_settled", "dispatch_timed", "cache_limit_near", "straggler"}
"""Kinds that have an answer elsewhere, or none."""
_FIRST = (
    "stale_capture", "graph_break", "skipped_forever", "thread_limit", "cache_limit", "repeat_offender", "recompile",
)  # fmt: skip
"""Of one story, which finding has the answer: the first of these that can be mended."""
_RECOMPILED = " recompiled"
_SAVED = ("recompile", "repeat_offender", "cache_limit")
"""Kinds whose compiles a change does away with."""


def answers(trace: Trace) -> list[Answer]:
    """At most `MOST`."""
    compiles = {row.id: row for row in trace.compiles}
    stories = [_answer(trace, compiles, story) for story in _stories(trace, compiles)]
    whole = sum(row.wall_ns for row in trace.compiles if row.parent is None)
    least, least_again = (max(_LEAST_NS, round(whole * share)) for share in (_LEAST_SHARE, _LEAST_SHARE_AGAIN))
    eager = {row.id for row in trace.graph_breaks if not row.compiles}  # what follows it is compiled in no call
    always = {row.id for row in trace.findings if row.severity == "error" or row.kind in _EVERY_CALL}
    always |= {row.id for row in trace.findings if row.kind == "graph_break" and eager & {*row.refs}}
    limits = {row.id: least_again for row in trace.findings if row.kind in _SAVED} | dict.fromkeys(always, 0)
    worth = [row for row in stories if row.cost_ns >= limits.get(row.finding, least)]
    once = {row.id for row in trace.findings if is_paid_once(row)}
    fatal = {row.id for row in trace.findings if _ended_the_run(trace, row)}
    alone = all(row.stack == "dynamo" for row in trace.compiles)  # else what another stack compiles counts by its cost
    bare = {row.id for row in trace.findings if alone and row.kind == "silent_eager" and row.text.startswith(NO_GRAPH)}

    def place(row: Answer) -> tuple[bool, bool, int]:
        cost_ns = row.cost_ns * (1 if row.finding in once else _GOES_ON)
        return row.finding not in fatal, bare.isdisjoint((row.finding, *row.also)), -cost_ns

    return sorted(worth, key=place)[:MOST]


def _ended_the_run(trace: Trace, row: Finding) -> bool:
    """Whether it is a compile whose error ended the run."""
    ended = (trace.run.error or "").partition("\n")[0]
    errors = [trace.details[ref].error for ref in row.refs if ref in trace.details]
    return bool(ended) and row.kind == "failed_compile" and any(ended in error for error in errors)


def _mendable(row: Finding) -> bool:
    """Whether a change of the user's would mend it."""
    many = _MANY if is_paid_once(row) else _MANY_EACH_STEP
    few = row.kind == "eager_compiles" and row.severity == "note" and len(row.refs) < many and row.cost_ns < _DEAR_NS
    mended = row.kind == "failed_compile" or any(each.how != "none" for each in row.remedies)
    return row.kind not in _NO_ANSWER and not few and mended


def _stories(trace: Trace, compiles: dict[str, Compile]) -> list[list[Finding]]:
    """The findings that can be mended, those of the same compiles together; what alike processes have is one, and what
    alike functions compiled again for."""
    again = {row.id: row.compile for row in trace.recompiles}
    broken = {row.id: row.compiles for row in trace.graph_breaks}
    mendable = filter(_mendable, trace.findings)
    by_text = gathered(((row.kind, _whenever(trace, row), str(row.location)), row) for row in mendable)
    recorded = {(row.compile, row.interval) for row in trace.cuda_graphs}
    caused = gathered((row.caused_by, row.id) for row in compiles.values() if row.caused_by is not None)
    stories: dict[int, tuple[set[str], list[Finding]]] = {}
    owner: dict[str, int] = {}
    for number, alike in enumerate(by_text.values()):
        refs = {ref for finding in alike for ref in finding.refs}
        ids = {id_ for ref in refs for id_ in (again.get(ref, ref), *broken.get(ref, ()), *caused.get(ref, ()))}
        if any(each.kind == "repeat_offender" and (*each.refs, each.interval) in recorded for each in alike):
            ids = {f"CUDA graph of {id_}" for id_ in ids}  # recorded at its own price, whatever was compiled again
        joined = {owner[id_] for id_ in ids if id_ in owner}
        largest = max(joined, key=lambda each: len(stories[each][0]), default=number)
        for other in joined - {largest}:
            more, findings = stories.pop(other)
            ids |= more
            alike = [*findings, *alike]
        whole = stories.setdefault(largest, (set(), []))
        whole[0].update(ids)
        whole[1].extend(alike)
        owner |= dict.fromkeys(ids, largest)
    return [findings for _, findings in stories.values()]


def _answer(trace: Trace, compiles: dict[str, Compile], story: list[Finding]) -> Answer:
    """The answer of a story, and what all of it cost."""
    story.sort(key=lambda row: -row.cost_ns)
    first = min(story, key=_rank)
    cost = max(max(row.cost_ns for row in story), _union(trace, compiles, story))
    if first.kind == "graph_break":  # what followed each of those that are alike was compiled for it alone
        cost = max(cost, sum(row.cost_ns for row in _alike(trace, first, story)))
    also = [row.id for row in story if row is not first]
    saves = first.kind in _SAVED and not _opens_for_few(trace, compiles, first, story)
    return Answer(first.id, cost, saves, _counted(trace, first, story), first.location, also)


def _opens_for_few(trace: Trace, compiles: dict[str, Compile], first: Finding, story: list[Finding]) -> bool:
    """Whether the change leaves a size or a number to each call, for so few compiles that the one which is then made,
    dearer by another compile or more, is a large part of what the others took."""
    refs = {ref for row in story for ref in row.refs}
    spared = [compiles[each.compile] for each in trace.recompiles if each.id in refs]
    changed = " ".join(f"{each.code} {' '.join(each.environment)}" for each in first.remedies)
    opens = {word for each in spared for word in rules_of(each.stack).opens}
    return len(spared) < _MANY_SPARED and any(word in changed for word in opens)


def _when(trace: Trace, row: Finding) -> str:
    """How the text of a recompile goes on with its step, " recompiled in step 7"."""
    return f"{_RECOMPILED}{in_step(trace.intervals[row.interval]) if row.interval is not None else ''}"


def _whenever(trace: Trace, row: Finding) -> str:
    """The text of a finding; of a recompile, without the step that it was in, of a graph break without its count."""
    if row.kind == "graph_break":
        return row.text.replace(f", {_breaks(trace, [row])} times", "", 1)
    return row.text.replace(_when(trace, row), _RECOMPILED, 1) if row.kind == "recompile" else row.text


def _breaks(trace: Trace, rows: list[Finding]) -> int:
    """How often the graph broke that these are about."""
    refs = {ref for row in rows for ref in row.refs}
    return sum(row.count for row in trace.graph_breaks if row.id in refs)


def _alike(trace: Trace, first: Finding, story: list[Finding]) -> list[Finding]:
    """Those of its process that are the same at the same place, itself among them."""
    whose = (first.kind, first.process, _whenever(trace, first), first.location)
    return [row for row in story if (row.kind, row.process, _whenever(trace, row), row.location) == whose]


def _counted(trace: Trace, first: Finding, story: list[Finding]) -> str:
    """The text of a story's first finding, with how often a process has the same, where that is more than once."""
    alike = _alike(trace, first, story)
    if first.kind == "graph_break" and len(alike) > 1:
        kind = next(f"({row.kind})" for row in trace.graph_breaks if row.id in first.refs)
        return _whenever(trace, first).replace(kind, f"{kind}, {times(_breaks(trace, alike))}", 1)
    if first.kind != "recompile" or len(alike) == 1:
        return first.text
    step = _when(trace, min(alike, key=lambda row: row.interval or 0)).removeprefix(_RECOMPILED)
    counted = f"{_RECOMPILED} {times(len(alike))}{f', first{step}' if step else ''}"
    return first.text.replace(_when(trace, first), counted, 1)


def _rank(row: Finding) -> tuple[int, bool, int]:
    """The lowest has the answer: what a program pays itself comes before what a cache does not keep of it."""
    return _FIRST.index(row.kind) if row.kind in _FIRST else len(_FIRST), row.kind == "cache_miss", -row.cost_ns


def _union(trace: Trace, compiles: dict[str, Compile], story: list[Finding]) -> int:
    """What the compiles of recompiles took that the findings speak of, each once."""
    again = {row.id: row.compile for row in trace.recompiles}
    process = story[0].process
    ids = {again[ref] for row in story if row.process == process for ref in row.refs if ref in again}
    return sum(compiles[id_].wall_ns for id_ in ids if compiles[id_].parent not in ids)
