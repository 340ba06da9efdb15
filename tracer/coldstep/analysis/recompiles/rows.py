"""Why a compile happened again: the two signatures compared, and held against the framework's own words."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from coldstep._util.expressions import expression
from coldstep._util.gathered import gathered
from coldstep.analysis.advice import DEFAULT_DEVICE, ROOT, Seen, advise, is_wide
from coldstep.analysis.patterns import differing, dims, is_number, is_zero_or_one, pattern_of
from coldstep.analysis.recompiles import causes
from coldstep.analysis.recompiles.causes import Explained, Known
from coldstep.analysis.recompiles.new_objects import made_anew
from coldstep.analysis.remedies.blocks import Written, assigned, block_around
from coldstep.analysis.remedies.edits import Call, find_call, kept, optimizer_made, parameters
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, advice, mended, remedies
from coldstep.analysis.rules import torch_xla
from coldstep.analysis.rules.dynamo import asked_of_a_size
from coldstep.analysis.rules.registry import rules_of
from coldstep.context import GRAD_MODE
from coldstep.model import Change, Compile, Location, Recompile, Remedy, Through, Trace
from coldstep.places import is_installed
from coldstep.rows.intervals import alone

_TRACED, _LOWERED_AND_COMPILED = "jax.trace", {"jax.lower", "xla.compile"}
_AFTER_A_BREAK = "This is what follows the graph break{at}: without the break it needs no compile of its own."
_WITH_THE_BREAK = "Or, with the break:"
_INTERMEDIATE = "<intermediate "
# PyTorch 2.13: "L['tokens']._base"
# PyTorch 2.13: "L['tokens'].stride()[0]"
_OF_A_VIEW = expression(r"\._base$|\.stride\(\)\[\d+\]$|\.storage_offset\(\)$")
"""Sources that are open wherever their tensor is."""
# Python: "self.optimizer.step"
_NAMES = expression(r"[^\W\d][\w.]*")
# PyTorch 2.9, 2.13: "m == 3                                                   # return x * m  # train.py:6 in f"
_SPACES = expression(r" {3,}")
# PyTorch 2.13: "___check_type_id(n, 1399417), type=<class 'float'> (HINT: type float)"
_HINT = expression(r" \(HINT: .+\)")
_EQUAL = "both signatures are equal in all that could be seen"
_BEFORE = "it was compiled before the trace began: what for is not known"
_NOT_SEEN = "what it was compiled for could not be seen"
_NOT_SAID = "the log does not show what it was compiled for (that takes TORCH_LOGS=recompiles)"
_RUN_AGAIN = Row("Run it again with TORCH_LOGS=recompiles: then the log shows why.")
Callers = dict[tuple[int, str], list[Location | None]]
"""By process and identity, the lines that called each variant, in their order."""
_INFERENCE, _NO_GRAD = "with torch.inference_mode():", "with torch.no_grad():"
_HAS_GRAD = "requires_grad"
_GROUPS = "param_groups["  # of an optimizer, in the argument of a recompile
_COMPILED_IN = ("python_scalar", "module_attribute", "global", "closure")


def recompiles(trace: Trace) -> list[Recompile]:
    """One row per further compile of an identity."""
    by_id = {compile_.id: compile_ for compile_ in trace.compiles}
    again = [c for c in trace.compiles if c.reason == "recompile"]
    counted = {compile_id: interval.index for interval in alone(trace.intervals) for compile_id in interval.compiles}
    rows = [_row(trace, number, compile_, by_id, counted) for number, compile_ in enumerate(again)]
    alike: dict[tuple[int, str], list[Recompile]] = defaultdict(list)
    values: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for row in rows:
        alike[row.process, trace.details[row.compile].identity].append(row)
        values[_of_argument(trace, row)] |= {text for text in (row.before, row.after) if text is not None}
    callers = callers_of(trace, trace.compiles)
    for row in rows:
        row.pattern = pattern_of(row, alike[row.process, trace.details[row.compile].identity], trace)
        if (is_open := _is_open(trace, row)) is not None:
            row.evidence.append(_outlook(row, is_open))
        had = len(values[_of_argument(trace, row)])
        mended(row, _remedies(trace, row, by_id[row.compile], callers, is_open, had))
    return rows


def _of_argument(trace: Trace, row: Recompile) -> tuple[object, ...]:
    """What those have in common that one argument of one function made compile, by one mechanism."""
    return row.process, trace.details[row.compile].identity, row.cause, row.argument


def _remedies(
    trace: Trace, row: Recompile, compile_: Compile, callers: Callers, is_open: bool | None = None, values: int = 0
) -> list[Remedy]:
    """What to change; of what follows a graph break the break comes first, since mending that is enough. `values`:
    how many the argument had in all calls."""
    id_ = f"{compile_.stack}.{row.cause}"
    known = trace.details[compile_.id]
    seen = _seen(trace, row, compile_, is_open, callers)
    opened = {name: size for name, size in (known.dynamic or {}).items() if is_open and not _OF_A_VIEW.search(name)}
    seen = replace(seen, values=values, static=known.static, sources=known.sources, opened=opened)
    given = known.entry  # to torch.compile by the program, which cannot leave it out
    if compile_.location is not None and is_installed(compile_.location.file) and not given:
        seen = replace(seen, library=compile_.function)
    is_said = row.evidence != [_NOT_SAID]
    own = advise(trace, compile_.stack, row, seen) if is_said else remedies(_RUN_AGAIN, Case(id_, {}))
    under_way = (row.argument or "").startswith(_INTERMEDIATE)  # what no one who reads this can pass otherwise
    if compile_.caused_by is None and not under_way:
        return own
    broken = next((each for each in trace.graph_breaks if each.id == compile_.caused_by), None)
    place = broken.location if broken is not None else None
    by_break = broken.remedies if broken is not None else []
    after = Row(_AFTER_A_BREAK.format(at=f" at {place.file}:{place.line}" if place else ""), how="none")
    rows = [*remedies(after, Case(f"{id_}:after_a_break", {})), *by_break]
    if not under_way and advice(own) != advice(by_break):
        if own and own[0].text != _RUN_AGAIN.text:
            own[0].text = f"{_WITH_THE_BREAK} {own[0].text}"
        rows += own
    return rows


def _seen(trace: Trace, row: Recompile, compile_: Compile, is_open: bool | None, callers: Callers) -> Seen:
    """What the trace shows of the call: the user's line, and in it the argument that differed."""
    within = trace.details[compile_.id].through is not None or rules_of(compile_.stack).is_trainers_loop(compile_)
    roots = _roots(compile_)
    of = callers.get((compile_.process, trace.details[compile_.id].identity), [compile_.caller])
    caller = of[0]  # a change has to come before the first variant
    if row.cause == "dtype" and row.pattern is None and is_wide(row.after, row.before):
        caller = compile_.caller
    if row.argument == DEFAULT_DEVICE:  # where one is set
        caller = compile_.caller if row.after != "None" else _caller_of(trace, row.previous)
    if row.cause == "requires_grad":  # where what has it is handed over
        caller = _caller_of(trace, row.previous) if _HAS_GRAD in (row.before or "").split() else compile_.caller
    of_optimizer = _GROUPS in (row.argument or "") or (row.cause, compile_.stack) == ("optimizer_state", "dynamo")
    if of_optimizer:  # where the optimizer is the program's own, and not compiled
        caller = _outside(trace, caller)
    named = partial(as_called, trace, compile_)
    at = trace.details[row.previous].cause_at if row.previous is not None else None
    if row.cause == "grad_mode" and at is not None and trace.code.get((at.file, at.line)) == _INFERENCE:
        return Seen(is_open, named, within, Place(at, line=_INFERENCE), mode=_NO_GRAD if row.after == "off" else "")
    if (row.cause, compile_.stack) == ("optimizer_state", "torch_xla"):
        made = [Place(Location(*place, ""), line=line) for place, line in trace.code.items() if optimizer_made(line)]
        return Seen(is_open, named, within, made[0] if len(made) == 1 else NOWHERE)
    line = trace.code.get((caller.file, caller.line), "") if caller is not None else ""
    if caller is None or within or is_installed(caller.file):
        again = trace.details[compile_.id].cause_at if row.cause == "new_function" else None
        words = f"line {again.line} of {again.file}" if within and again is not None else ""
        return Seen(is_open, named, within, Place(line=line), frozenset(roots), again=words)
    names = _parameters(trace, compile_)
    known = trace.details[compile_.id]
    types = {each.argument: each.type for each in compile_.inputs or ()}
    place = call_of(trace, compile_, row.argument, caller, of)
    return Seen(
        is_open,
        named,
        within,
        place,
        frozenset(roots),
        types if names == [*types] else {},
        types,
        kept=kept(line, compile_.function, _owner(trace, caller), known.known_by),
        optimizer=_optimizer(trace, caller, line) if of_optimizer else "",
        same_file=compile_.location is not None and compile_.location.file == caller.file,
        once=made_anew(trace, compile_, Change(row.argument, row.cause, row.before, row.after), place),
        rewritten=_rewritten(trace, row, compile_),
        beside=_beside(trace, row, compile_, types),
        calls=_calls(trace, row, compile_, caller, of) if row.cause == "shape" else {},
        head=_head(trace, compile_),
        grad_off=known.signature.context.get(GRAD_MODE.key(), "on") != "on",
    )


def _outside(trace: Trace, caller: Location | None) -> Location | None:
    """Where the compiled function is called that a line is in; the line itself where that is in none."""
    of = {(row.location.file, row.function): row.caller for row in trace.compiles if row.location is not None}
    return (of.get((caller.file, caller.function)) if caller is not None else None) or caller


def _owner(trace: Trace, caller: Location) -> str:
    """The name of the function that a line is in, also where a comprehension in that line makes the call."""
    block = block_around(trace.blocks, caller) if caller.function.startswith("<") else None
    return block.tree.name if block is not None and isinstance(block.tree, ast.FunctionDef) else caller.function


def _rewritten(trace: Trace, row: Recompile, compile_: Compile) -> Written | None:
    """Lines of a function's that have its value compiled in, without that."""
    rewrite = rules_of(compile_.stack).rewrites.get(row.cause)
    if rewrite is None or row.argument is None or compile_.location is None:
        return None
    block = block_around(trace.blocks, compile_.location)
    return rewrite(block, row.argument) if block is not None else None


def _beside(trace: Trace, row: Recompile, compile_: Compile, types: Mapping[str, str]) -> str:
    """The type of the arrays that a function computes with beside a number."""
    beside, number = rules_of(compile_.stack).type_beside, row.argument
    if row.cause != "python_scalar" or compile_.location is None or not number or beside is None:
        return ""
    block = block_around(trace.blocks, compile_.location)
    return beside(block, number, types) if block is not None else ""


def _optimizer(trace: Trace, caller: Location, line: str) -> str:
    """The variable of the one optimizer, if its file has one, that the line of a call can name: it names it already, or
    stands at the module's own level; "" of any other, for a function need not see what another one made."""
    optimizers = [(file, name) for (file, _), code in trace.code.items() if (name := optimizer_made(code))]
    if len(optimizers) != 1 or optimizers[0][0] != caller.file:
        return ""
    name = optimizers[0][1]
    named = any(f"{each}.".startswith(f"{name}.") for each in _NAMES.findall(line))
    return name if named or caller.function == "<module>" else ""


def call_of(
    trace: Trace, compile_: Compile, argument: str | None, caller: Location, callers: Iterable[Location | None]
) -> Place:
    """The user's line that calls a function, and in it the argument that differed."""
    at, function, names = compile_.location, compile_.function.rpartition(".")[2], _parameters(trace, compile_)
    root = (ROOT.match(argument or "") or [""])[0]
    line = trace.code.get((caller.file, caller.line), "")
    call = find_call(line, root, names, [function]) if root in names else None
    above = Location(at.file, at.line - 1, at.function) if at is not None else None
    decorator = trace.code.get((above.file, above.line), "") if above is not None else ""
    only = len({(each.file, each.line) for each in callers if each is not None}) == 1
    block = block_around(trace.blocks, caller)
    if call is not None and caller.function != "<module>":
        call = replace(call, names=frozenset(assigned([block.tree]) if block is not None else ()))
    begins = block is None or [*block.within(caller.line)][-1].lineno == caller.line
    return Place(caller if begins else None, call, only, decorator, above, line)


def _head(trace: Trace, compile_: Compile) -> ast.arguments | None:
    block = block_around(trace.blocks, compile_.location) if compile_.location is not None else None
    return block.tree.args if block is not None and isinstance(block.tree, ast.FunctionDef) else None


def _calls(
    trace: Trace, row: Recompile, compile_: Compile, caller: Location, callers: Iterable[Location | None]
) -> dict[str, Call]:
    """Each argument that differed by its shape, in the user's line that calls the function."""
    paths = [change.argument for change in row.changes if change.mechanism == row.cause and change.argument]
    calls = {path: call_of(trace, compile_, path, caller, callers).call for path in paths}
    return {path: call for path, call in calls.items() if call is not None}


def _parameters(trace: Trace, compile_: Compile) -> list[str]:
    at = compile_.location
    return (parameters(trace.code.get((at.file, at.line), "")) if at is not None else None) or _roots(compile_)


def _caller_of(trace: Trace, id_: str | None) -> Location | None:
    return next((row.caller for row in trace.compiles if row.id == id_), None)


def callers_of(trace: Trace, compiles: Iterable[Compile]) -> Callers:
    return gathered(((row.process, trace.details[row.id].identity), row.caller) for row in compiles)


def _roots(compile_: Compile) -> list[str]:
    return list(dict.fromkeys(match[0] for row in compile_.inputs or () if (match := ROOT.match(row.argument))))


def refused(trace: Trace, compile_: Compile) -> Recompile:
    """Why a compile that a limit forbade was asked for, as if it had been made; it is no row of the trace's."""
    return with_advice(trace, _row(trace, 0, compile_, {}, {}), compile_, callers_of(trace, [compile_]))


def with_advice(trace: Trace, row: Recompile, compile_: Compile, callers: Callers) -> Recompile:
    """A row that is none of the trace's, with what to change."""
    return mended(row, _remedies(trace, row, compile_, callers))


def in_short(failures: list[str]) -> list[str]:
    """Guards that failed without the call stack below each, which is no help where the place is known; a hint once."""
    shortened: list[str] = []
    for text in failures:
        text = _SPACES.sub("  ", text.partition("\nUser stack trace:")[0])
        hint = _HINT.search(text)
        is_known = hint is not None and any(hint[0] in earlier for earlier in shortened)
        shortened.append(text.replace(hint[0], "") if hint is not None and is_known else text)
    return shortened


def explain(trace: Trace, compile_: Compile, previous: Compile | None) -> Explained:
    """Why `compile_` had to be where `previous` was."""
    if compile_.inputs is None or (previous is not None and previous.inputs is None):
        return Explained(None, False, [])
    new = trace.details[compile_.id]
    earlier = None
    if previous is not None:
        before = trace.details[previous.id]
        earlier = Known(before.signature, before.framework_id)
    elif new.before is not None:
        earlier = Known(new.before)
    known = Known(new.signature, new.framework_id, new.guard_failures, new.guarded)
    return causes.explain(trace.vocabulary, compile_.stack, known, earlier)


def _row(trace: Trace, number: int, compile_: Compile, by_id: dict[str, Compile], counted: dict[str, int]) -> Recompile:
    previous = by_id.get(trace.details[compile_.id].previous or "")
    explained = explain(trace, compile_, previous)
    change, changes = explained.change, explained.changes
    known = trace.details[compile_.id]
    evidence = [*known.guard_failures, *known.evidence]
    if change is not None:
        evidence = in_short(evidence)
    phases = {phase for segment in compile_.segments for phase in segment.phases}
    if compile_.stack == "jax" and phases >= _LOWERED_AND_COMPILED and _TRACED not in phases:
        evidence.append("not traced again, only lowered and compiled: JAX's own explanation of cache misses is silent")
    if (through := trace.details[compile_.id].through) is not None and compile_.caller is not None:
        place = f"{compile_.caller.file}:{compile_.caller.line}"
        evidence.append(f"{compile_.function} is called by {through.function}, which {place} calls")
    if compile_.stack == "torch_xla" and previous is not None and None not in (compile_.inputs, previous.inputs):
        evidence = torch_xla.evidence(trace.details[previous.id].signature, trace.details[compile_.id].signature)
    elif change is None:
        evidence += [f"{c.argument or c.mechanism}: {c.before} → {c.after}" for c in changes]
        silent = compile_.stack == "dynamo" and causes.is_blind(trace.details[compile_.id].signature)
        unseen = previous is not None and None in (compile_.inputs, previous.inputs)
        was = previous or known.before
        nothing = _NOT_SEEN if unseen else _NOT_SAID if silent else _EQUAL if was else _BEFORE
        evidence = evidence or [nothing]
    interval = counted.get(compile_.id, compile_.segments[0].interval)
    return Recompile(
        id=f"r{number}",
        process=compile_.process,
        compile=compile_.id,
        previous=previous.id if previous else None,
        interval=interval,
        step=trace.intervals[interval].step,
        cause=change.mechanism if change else "unknown",
        pattern=None,
        argument=change.argument if change else None,
        before=change.before if change else None,
        after=change.after if change else None,
        changes=changes,
        evidence=evidence,
        confidence="proven" if explained.proven else "inferred",
        advice="",
        cost_ns=compile_.wall_ns,
    )


# --- will it happen again? ------------------------------------------------------------------------------------


def _is_open(trace: Trace, row: Recompile) -> bool | None:
    """Whether the new variant takes every further value of what differed; None where that is no number, or unknown."""
    dynamic = trace.details[row.compile].dynamic
    if dynamic is None or row.argument is None:
        return None
    dimensions_open = dynamic.get(row.argument, "").split(", ")
    if row.cause in _COMPILED_IN:
        return "value" in dimensions_open if is_number(row.before) and is_number(row.after) else None
    dimensions = differing(row.before, row.after) if row.cause == "shape" else []
    return all(str(dimension) in dimensions_open for dimension in dimensions) if dimensions else None


def _outlook(row: Recompile, is_open: bool) -> str:
    if row.cause != "shape":
        if is_open:
            return f"{row.argument} is a symbol from now on: another number compiles nothing new"
        return f"the number is compiled in: another {row.argument} compiles again"
    dimensions = ", ".join(map(str, differing(row.before, row.after)))
    if is_open and asked_of_a_size(row):
        return f"dimension {dimensions} of {row.argument} is dynamic, but a question about its size is compiled in"
    if is_open:
        return f"dimension {dimensions} of {row.argument} is dynamic from now on: another size compiles nothing new"
    if is_zero_or_one(row.before, row.after):
        return f"dimension {dimensions} of {row.argument} is compiled in, as 0 and 1 always are: no other size fits it"
    return f"dimension {dimensions} of {row.argument} is compiled in: another size compiles again"


# --- finds an argument as its caller wrote it ------------------------------------------------------------------------


def as_called(trace: Trace, compile_: Compile, argument: str) -> str:
    """The path of an argument by the caller's expression, where a library's function was called and the line has it."""
    root = ROOT.match(argument)
    caller = compile_.caller
    of_library = compile_.location is None or is_installed(compile_.location.file)
    roots = _roots(compile_)
    # no line but one of the function itself could say args[0]
    nameless = bool(roots) and all(each.endswith("]") for each in roots)
    if root is None or caller is None or not (of_library or nameless):
        return argument
    if (through := trace.details[compile_.id].through) is not None:
        code = trace.code.get((caller.file, caller.line), "")
        return _cut_from(through, compile_, argument, code) or argument
    if root[0] not in roots:
        return argument
    call = find_call(trace.code.get((caller.file, caller.line), ""), root[0], roots, [])
    # a call makes another tensor each time, which is not the one to be marked
    return argument if call is None or call.has_call else f"{call.expression}{argument[root.end() :]}"


def _cut_from(through: Through, compile_: Compile, argument: str, code: str) -> str | None:
    """The one array, as the caller wrote it, that an argument can be a batch of: all its dimensions but the first."""
    type_ = next((row.type for row in compile_.inputs or () if row.argument == argument), "")
    given = [at for at, row in enumerate(through.arguments) if dims(row.type) and _rest(row.type) == _rest(type_)]
    if len(given) != 1 or not dims(type_):
        return None
    names = [each.argument for each in through.arguments]
    call = find_call(code, names[given[0]], names, [through.function.rpartition(".")[2]])
    return names[given[0]] if call is None or call.has_call else call.expression


def _rest(type_: str) -> list[str]:
    return dims(type_)[1:]
