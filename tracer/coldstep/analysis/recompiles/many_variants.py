"""Functions with many variants: that compile again and again, near the limit, at it, and one per module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from coldstep._util.expressions import expression
from coldstep._util.figures import duration, listed, times
from coldstep._util.gathered import gathered
from coldstep._util.slotted import slotted
from coldstep.analysis.advice import MADE_ONCE
from coldstep.analysis.make_finding import MOST_NAMED, About, chain, marked, of_compile, whose, without_values
from coldstep.analysis.patterns import dtype_name
from coldstep.analysis.recompiles.new_objects import made_anew
from coldstep.analysis.recompiles.rows import call_of, explain, in_short, refused
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, remedies
from coldstep.analysis.remedies.table import advice as joined
from coldstep.analysis.rules.dynamo import REMEDIES, UNBACKED
from coldstep.context import CACHE
from coldstep.model import Change, Compile, Finding, Recompile, Remedy, Severity, Trace
from coldstep.places import is_installed

_OFTEN_RECOMPILES = 3  # of one identity: from here on they are a finding of their own
_NEAR_VARIANTS = 2  # that are left below the limit: then it is time to say so
# PyTorch 2.13: "exceeding the recompile_limit cache size limit (currently set to 8). "
_LIMIT = expression(r"currently set to (\d+)")
_MAX_ARGUMENTS = 3  # that are told with their values

_ONE_FOR_ALL = Row(
    "The modules differ in {argument}, which is compiled in: where forward() does without it, one compile serves them "
    "all.",
    environment={"TORCH_COMPILE_DYNAMIC_SOURCES": "{sources}"},
)
# coldstep: "Config #2"
_NUMBER = expression(r" #\d+")
# coldstep: "self.idx"
_OF_MODULE = expression(r"self((?:\.[A-Za-z_]\w*)+)")
_ONE_DTYPE = Row(
    "The modules share one compile where {argument} has one dtype: cast it before the first of them to that which they "
    "return, {dtype}.",
    above="{expression} = {expression}.to(torch.{dtype})",
    each=True,
    changes="numerics",
)
_UNCOMPILED = {
    False: "run eagerly",
    True: "fail, since fullgraph=True",
    None: "run eagerly (with fullgraph=True: fail)",
}
"""What becomes of calls for which the framework compiles no further variant."""
_ALIKE = Row("Modules that are alike in all that the graph holds share one compile: make these so where they can be.")

_SHOW_WHY = Row(
    "Run it again with TORCH_LOGS=recompiles: then the log shows what varies. A higher limit (torch._dynamo.config."
    "recompile_limit; before PyTorch 2.6 cache_size_limit) puts off the next one."
)

_Code = tuple[int, str, str]
"""What the framework counts variants of: a code object, whatever module it runs for, between two resets."""


@slotted
class _Reason:
    """Why a further variant of a code was made."""

    compile: Compile
    cause: str
    argument: str | None
    before: str | None
    after: str | None
    advice: str
    remedies: list[Remedy]


def of_variants(trace: Trace, also: Mapping[str, list[Recompile]]) -> Iterator[Finding]:
    """All findings about a function's variants taken together; `also`: the further causes of a recompile, by its id."""
    yield from _repeat_offenders(trace, also)
    yield from _per_module(trace)
    yield from _limits(trace)


def _repeat_offenders(trace: Trace, also: Mapping[str, list[Recompile]]) -> Iterator[Finding]:
    """Functions that compile again and again, each in one line with the values that did it."""
    compiles = {row.id: row for row in trace.compiles}
    offences = gathered(((row.process, trace.details[row.compile].identity), row) for row in trace.recompiles)
    for again in offences.values():
        if len(again) < _OFTEN_RECOMPILES:
            continue
        causes = [each for row in again for each in (row, *also.get(row.id, ()))]
        groups = _by_argument([_of_recompile(row, compiles[row.compile]) for row in causes])
        known, last = _known(groups), compiles[again[-1].compile]
        text = f"{last.function} recompiled {len(again)} times: {'; '.join(_parts(known, len(again)))}"
        cost_ns, refs = sum(row.cost_ns for row in again), [row.id for row in again]
        about = About(cost_ns=cost_ns, evidence=_table(groups), refs=refs)
        yield of_compile(trace, last, "repeat_offender", text, **about | _advised(known))


def _of_recompile(row: Recompile, compile_: Compile) -> _Reason:
    return _Reason(compile_, row.cause, row.argument, row.before, row.after, row.advice, row.remedies)


def _known(groups: list[list[_Reason]]) -> list[list[_Reason]]:
    """The groups that a finding speaks of."""
    return ([group for group in groups if group[0].cause != "unknown"] or groups)[:_MAX_ARGUMENTS]


def _advised(groups: list[list[_Reason]]) -> About:
    """The advice for each of the groups, and its remedies."""
    deciding = [*map(_deciding, groups)]
    named = ((whose(each.cause, each.argument, each.compile), each) for each in deciding)
    words, rows = marked([(name, each.cause, each.remedies) for name, each in named])
    return About(advice=words or deciding[0].advice, remedies=rows)


def _deciding(group: list[_Reason]) -> _Reason:
    """The one whose remedies are for all of a group: what leaves a size of 0 or 1 open leaves the others open, too."""
    special = (each for each in group if any(UNBACKED in remedy.environment for remedy in each.remedies))
    return next(special, group[-1])


def _by_argument(reasons: Iterable[_Reason]) -> list[list[_Reason]]:
    """The reasons by what differed, the costliest first, and what is not known last."""
    groups = gathered(((reason.cause, reason.argument), reason) for reason in reasons)
    return sorted(groups.values(), key=lambda group: (group[0].cause == "unknown", -_cost(group)))


def _cost(reasons: list[_Reason]) -> int:
    return sum(reason.compile.wall_ns for reason in reasons)


def _with_others(groups: list[list[_Reason]]) -> Iterator[tuple[list[_Reason], int]]:
    """Each group, and how many of its compiles are in an earlier one, too: they had to be for either cause."""
    before: set[str] = set()
    for group in groups:
        ids = {reason.compile.id for reason in group}
        yield group, len(ids & before)
        before |= ids


def _parts(groups: list[list[_Reason]], whole: int) -> Iterator[str]:
    """What differed; of several groups, in how many of all the recompiles: "3 times n was 1 → 2 → 3 → 4"."""
    for group, beside in _with_others(groups):
        often, values = len(group), _sequence(group)
        if beside == often:
            yield f"{'each time' if often == whole else f'in {often} of these'} also {values}"
        else:
            alone = f" ({beside} of them beside another cause)" if beside else ""
            yield values if often == whole or len(groups) == 1 else f"{times(often)} {values}{alone}"


def _sequence(reasons: list[_Reason]) -> str:
    """ "x was f32[1] → f32[2] → f32[3]", or "x was f32[4] → f32[3], f32[4] → f32[2]" where one is not the next's."""
    name = reasons[0].argument or reasons[0].cause
    if objects := _objects(reasons):
        return objects
    if all(was.after == now.before for was, now in pairwise(reasons)):
        values = [value for value in (reasons[0].before, *(reason.after for reason in reasons)) if value]
        return f"{name} was {chain(values)}" if values else _unvalued(reasons[0])
    pairs = (chain(list(filter(None, (each.before, each.after)))) for each in reasons)
    return f"{name} was {listed(pairs, MOST_NAMED)}"


def _in_brief(groups: list[list[_Reason]]) -> str:
    """What led to most of them, "x was f32[2] → … → f32[9]", and the names of what else did, in its place in a text."""
    reasons = groups[0]
    values = list(filter(None, (reasons[0].before, reasons[-1].after)))
    name = reasons[0].argument or reasons[0].cause
    was = f"{name} was {' → … → '.join(values) if len(reasons) > 1 else chain(values)}" if values else ""
    first = _objects(reasons) or was or _unvalued(reasons[0])
    others = [whose(group[0].cause, group[0].argument, group[0].compile) for group in groups[1:]]
    return f"{first}; also {listed(others, MOST_NAMED)}" if others else first


def _unvalued(reason: _Reason) -> str:
    return without_values(reason.cause, reason.argument) or reason.cause


def _objects(reasons: list[_Reason]) -> str:
    """ "config was 4 different Config objects", where the values are no more than numbers of objects that are alike."""
    first = reasons[0]
    values = {value or "" for reason in reasons for value in (reason.before, reason.after)}
    kinds = {_NUMBER.sub("", value) for value in values}
    if len(kinds) > 1 or len(values) == 1 or any(value.startswith(("'", '"')) for value in values):
        return ""
    class_ = f"{kinds.pop().partition('(')[0]} ".lstrip() if first.argument else ""
    return f"{whose(first.cause, first.argument, first.compile)} was {len(values)} different {class_}objects"


def _table(groups: list[list[_Reason]]) -> list[str]:
    """A line for each argument that had a part in it: how often, what it cost if that is known, its values."""
    rows = []
    for group, beside in _with_others(groups):
        often = times(len(group)) + (f" ({beside} of them beside another cause)" if beside else "")
        cost = f", {duration(cost_ns)}" if (cost_ns := _cost(group)) else ""
        values = f": {_sequence(group)}" if group[0].cause != "unknown" else ""
        rows.append(f"{group[0].cause}, {often}{cost}{values}")
    return rows


# --- by code ------------------------------------------------------------------------------------------------------


def _code_of(trace: Trace, row: Compile) -> _Code | None:
    """The code object that the framework compiled, None where it does not number them."""
    frame, slash, _ = trace.details[row.id].framework_id.partition("/")
    return (row.process, frame, trace.details[row.id].signature.context.get(CACHE.key(), "")) if slash else None


def _by_code(trace: Trace) -> Iterator[list[Compile]]:
    by_code = gathered(
        (code, row) for row in trace.compiles if row.origin == "user" and (code := _code_of(trace, row)) is not None
    )
    yield from by_code.values()


def _reasons(trace: Trace, rows: list[Compile]) -> Iterator[_Reason]:
    """Why each further variant of a code was made: as a recompile, or for another module."""
    recompiled = {row.compile: row for row in trace.recompiles}
    for previous, row in zip([None, *rows], rows, strict=False):
        if row.id in recompiled:
            yield _of_recompile(recompiled[row.id], row)
        elif previous and row.outcome != "limit" and (change := explain(trace, row, previous).change) is not None:
            constant = change.mechanism in ("module_attribute", "python_scalar")
            names = {"argument": str(change.argument), "dtype": dtype_name(change.after), "sources": _source(change)}
            case = Case(f"modules.{change.mechanism}:{change.argument}", names, _place(trace, change.argument, rows))
            casts = change.mechanism == "dtype" and names["dtype"]
            of_classes = change.mechanism == "type" and change.argument == "self"
            otherwise = REMEDIES["type of self"] if of_classes else _ALIKE
            chosen = _ONE_FOR_ALL if constant else _ONE_DTYPE if casts else otherwise
            if (once := made_anew(trace, row, change, case.place)) is not None:
                place = Place(once.location, lines=once.lines)
                chosen, case = MADE_ONCE, Case(case.id, {"once": once.code}, place)
            alike = remedies(chosen, case)
            words = alike[0].text
            yield _Reason(row, change.mechanism, change.argument, change.before, change.after, words, alike)


def _source(change: Change) -> str:
    """Dynamo's own name of a whole number that modules hold; "" of anything else."""
    held = _OF_MODULE.fullmatch(change.argument or "")
    whole = (change.before or "").isdecimal() and (change.after or "").isdecimal()
    return f"L['self']{held[1]}" if held is not None and whole else ""


def _place(trace: Trace, argument: str | None, rows: list[Compile]) -> Place:
    """The line that calls the first of the modules, where that is the user's."""
    caller = rows[0].caller
    if caller is None or is_installed(caller.file) or trace.details[rows[0].id].through is not None:
        return NOWHERE
    return call_of(trace, rows[0], argument, caller, [row.caller for row in rows])


def _per_module(trace: Trace) -> Iterator[Finding]:
    """One code that is compiled for each of several modules: not again and again, but not once, either."""
    for rows in _by_code(trace):
        others = [reason for reason in _reasons(trace, rows) if reason.compile.reason == "first"]
        least = 1 if any(reason.cause == "dtype" for reason in others) else _OFTEN_RECOMPILES - 1
        if len(others) < least:
            continue
        groups = sorted(_by_argument(others), key=len, reverse=True)
        text = f"{rows[0].function} was compiled for each of {len(others) + 1} modules: {_sequence(groups[0])}"
        deciding, refs = _deciding(groups[0]), [reason.compile.id for reason in others]
        about = About(severity="note", cost_ns=_cost(others), evidence=_table(groups), refs=refs)
        advised = About(advice=deciding.advice, remedies=deciding.remedies)
        yield of_compile(trace, others[-1].compile, "repeat_offender", text, **about | advised)


def _limits(trace: Trace) -> Iterator[Finding]:
    """Functions for which the framework compiles no further variant, and those for which it soon won't."""
    recompiled = {row.compile: row.id for row in trace.recompiles}
    for rows in _by_code(trace):
        reached = next((row for row in rows if row.outcome == "limit"), None)
        last, room = rows[-1], trace.details[rows[-1].id].room
        near = room is not None and room <= _NEAR_VARIANTS and last.variant.limit and len(rows) > 1
        if reached is None and not near:
            continue
        # what used up the variants comes first, and not the dearest of them
        groups = sorted(_by_argument(_reasons(trace, rows)), key=lambda each: (each[0].cause == "unknown", -len(each)))
        if not groups and reached is not None and (why := refused(trace, reached)).cause != "unknown":
            groups = [[_of_recompile(why, reached)]]  # a log that tells of no recompile but this
            evidence = [f"{why.cause}, the last time: {_sequence(groups[0])}"]
        else:
            evidence = _table(groups)
        evidence += _modules(trace, rows)
        again = remedies(_SHOW_WHY, Case(f"torch.limit:{last.id}", {})) if reached is not None and not groups else []
        advised = _advised(_known(groups)) if groups else About(advice=joined(again), remedies=again)
        refs = [recompiled[row.id] for row in rows if row.id in recompiled]
        if reached is not None:
            error = trace.details[reached.id].error
            match = _LIMIT.search(error)  # there are two limits, and only the error tells which
            limit = match[1] if match else reached.variant.limit
            variants = f"{limit} variants" if limit is not None else "variants"
            if groups and groups[0][0].cause != "unknown":
                variants += f" ({_in_brief(groups)})"
            text = f"{reached.function} reached its limit of {variants}: no more are compiled, and from here on calls"
            evidence += [*in_short(trace.details[reached.id].guard_failures), *([error] if error else [])]
        else:
            at = (last.variant.limit or 0) - (room or 0)
            text = f"{last.function} is at variant {at} of {last.variant.limit}: beyond these, calls"
        row = reached or last
        text += f" that fit none of them {_UNCOMPILED[trace.details[row.id].fullgraph]}"
        severity: Severity = "error" if reached is not None else "warning"
        about = About(severity=severity, evidence=evidence, refs=[row.id, *refs]) | advised
        yield of_compile(trace, row, "cache_limit" if reached is not None else "cache_limit_near", text, **about)


def _modules(trace: Trace, rows: list[Compile]) -> list[str]:
    """How the variants of a code spread over the modules that it runs for, where it is more than one."""
    per_module = Counter(trace.details[row.id].identity for row in rows if row.outcome != "limit")
    most = max(per_module.values(), default=0)
    return [f"{len(per_module)} modules run it, with at most {most} variants each"] if len(per_module) > 1 else []
