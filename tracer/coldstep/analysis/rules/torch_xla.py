"""Why a lazy graph of torch_xla was compiled again: its inputs now and before, and its operations.

An input has the name of the user's variable; its value in the step before distinguishes known patterns (the optimizer's
state, gradients, work left over from the set-up) from plain differences.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from coldstep import context as forms
from coldstep._util.expressions import expression
from coldstep._util.figures import count
from coldstep._util.gathered import gathered
from coldstep.analysis.patterns import differing
from coldstep.analysis.remedies.row import Row
from coldstep.signature import Change, Signature, differences

PAD = ("import torch", "torch.nn.functional.pad(x, (0, 0) * (x.ndim - {n}) + (0, more))")
"""What pads dimension `d` of x by `more`, with what it imports; `n` is one more than `d`."""

# coldstep: "optimizer.state[model.weight]['momentum_buffer']"
_STATE = expression(r"(.+\.state)\[(.+)\]\[('[^']*')\]")
# coldstep: "f32[8,4]"
_TYPE = expression(r"[a-z]+(\d*)\w*\[([\d,]*)\]")
_NUMBER, _TENSOR = "<number>", "<tensor>"  # inputs that no variable names
_COUNTS = (forms.GRAPH_INPUTS, forms.GRAPH_OUTPUTS, forms.GRAPH_NODES)
_AROUND_NUMBERS = {"parameter", "constant", "broadcast", "reshape", "convert", "negate"}
"""What differs between a graph that takes a number and one that holds it."""
_COMPILED_IN = {0.0, 1.0, -1.0}
"""The numbers that are no inputs; every other constant is a setting of an operation."""


def explain(before: Signature, after: Signature) -> tuple[Change | None, bool, list[Change]]:
    """The change that explains the compile, whether it is proven, and all that differs."""
    seen = [*_stories(before, after), *_of_inputs(before, after), *_of_modes(before, after)]
    changes = seen or list(_of_shapes(before, after)) or list(_of_operations(before, after))
    proven = bool(seen) or (_is_exact(before) and _is_exact(after))
    return (changes[0] if changes else None), proven and bool(changes), changes


def evidence(before: Signature, after: Signature) -> list[str]:
    """What the two graphs show."""
    lines = []
    for form in _COUNTS:
        counts = [side.context.get(form.key()) for side in (before, after)]
        if None not in counts and (form is forms.GRAPH_INPUTS or counts[0] != counts[1]):
            lines.append(f"{form.word}: {counts[0]} → {counts[1]}")
    return [*lines, *_of_state(before, after), *_of_setup(before, after), *_of_graphs(before, after)]


# --- stories --------------------------------------------------------------------------------------------------


def _stories(before: Signature, after: Signature) -> Iterator[Change]:
    for state in dict.fromkeys(match[1] for match in _new_states(before, after)):
        yield Change(state, "optimizer_state", _keys(before, state), after.context.get(forms.STATE.key(state)))
    yield from _of_gradients(before, after)
    for name in _older(before, after)[:1]:
        yield Change(name, "pending_setup", "to be computed", after.inputs.get(name))
    reads = [side.context.get(forms.READ.key()) for side in (before, after)]
    unsynced = all(reads) and before.context.get(forms.SYNCS.key()) == after.context.get(forms.SYNCS.key())
    if unsynced and (_nodes(before) != _nodes(after) or _nodes(after) is None):  # else nothing has been left pending
        yield Change(None, "host_read", _nodes(before), _nodes(after))


def _new_states(before: Signature, after: Signature) -> list[re.Match[str]]:
    """The optimizer's state that has become an input."""
    older = _older(before, after)
    states = [match for name in _new(before, after) if name not in older and (match := _STATE.fullmatch(name))]
    if not _is_exact(after) and _more_inputs(before, after) < len(states):
        return []  # it is there, and is no input
    return states


def _more_inputs(before: Signature, after: Signature) -> int:
    was, now = (side.context.get(forms.GRAPH_INPUTS.key()) for side in (before, after))
    return int(now) - int(was) if was is not None and now is not None else 0


def _of_gradients(before: Signature, after: Signature) -> Iterator[Change]:
    was, now = (side.context.get(forms.GRADIENTS.key(), "new") for side in (before, after))
    if (" " in now) != (" " in was):  # a name and a type where they were added to, else a word
        name, _, type_ = (now if " " in now else was).partition(" ")
        yield Change(name, "gradient_state", *(("None", type_) if " " in now else (type_, "None")))


def _older(before: Signature, after: Signature) -> list[str]:
    """New inputs that were there, in work still to be done, when the step before began."""
    if not _is_exact(before):
        return []
    older = set(forms.names_in(after.context.get(forms.OLDER.key(), "")))
    return [name for name in _new(before, after) if name in older]


def _new(before: Signature, after: Signature) -> Iterator[str]:
    """Names that have come; but those that an input of the same type may just have had no name for are none."""
    unnamed = _unnamed(before) - _unnamed(after)
    for name in sorted((name for name in after.inputs if name not in before.inputs), key=_is_made):
        if unnamed[type_ := after.inputs[name]]:
            unnamed[type_] -= 1
        else:
            yield name


def _unnamed(signature: Signature) -> Counter[str]:
    return Counter(type_ for name, type_ in signature.inputs.items() if name.startswith(_TENSOR))


def _is_made(name: str) -> bool:
    """Whether training itself makes the tensor: an optimizer's state or a gradient."""
    return _STATE.fullmatch(name) is not None or name.endswith(".grad")


def _keys(signature: Signature, state: str) -> str:
    """What the graph starts from of an optimizer's state."""
    keys = {match[3] for name in signature.inputs if (match := _STATE.fullmatch(name)) and match[1] == state}
    return f"{{{', '.join(sorted(keys))}}}"


# --- mechanisms -----------------------------------------------------------------------------------------------


def _of_inputs(before: Signature, after: Signature) -> list[Change]:
    """Inputs that both graphs have, of another type."""
    both = [name for name in after.inputs if name in before.inputs and not name.startswith(_NUMBER)]
    changes = differences(*(Signature({name: side.inputs[name] for name in both}) for side in (before, after)))
    for change in changes:
        if (change.argument or "").startswith(_TENSOR):
            change.argument = None
    return changes


def _of_modes(before: Signature, after: Signature) -> Iterator[Change]:
    was, now = (side.context.get(forms.TRAINING.key()) for side in (before, after))
    if was != now and was is not None and now is not None and _operations(before) != _operations(after):
        yield Change(None, "training_mode", was, now)


def _of_shapes(before: Signature, after: Signature) -> Iterator[Change]:
    """The same operations on another size: a tensor that is made on the device is no input."""
    if forms.FROM_A_LOG.key() in after.context:
        return
    exact = _is_exact(before) and _is_exact(after)
    if exact and _operations(before) != _operations(after):
        return
    if any(before.context.get(form.key()) != after.context.get(form.key()) for form in _COUNTS):
        return
    was, now = (forms.VARIABLE.of(side.context) for side in (before, after))
    named = differences(*(Signature({name: side[name] for name in now if name in was}) for side in (was, now)))
    changes = [change for change in named if change.mechanism == "shape"]
    if not exact:
        yield from changes
        return
    lost, gained = (list(side) for side in (_results(before) - _results(after), _results(after) - _results(before)))
    changes = [change for change in changes if change.before in lost and change.after in gained]
    pairs = ((was, now) for was in lost for now in gained if len(differing(was, now)) == 1)
    yield from changes or (Change(None, "shape", *pair) for pair in islice(pairs, 1))


def _of_operations(before: Signature, after: Signature) -> Iterator[Change]:
    """A number that one of the graphs holds, or other operations."""
    if not (_is_exact(before) and _is_exact(after)):
        yield from _of_counts(before, after)
        return
    old, new = _operations(before), _operations(after)
    lost, gained = (
        _values(side) for side in (_constants(before) - _constants(after), _constants(after) - _constants(before))
    )
    held = bool(lost or gained)
    others = set((old - new) + (new - old))
    alike = all(before.context[form.key()] == after.context[form.key()] for form in (forms.CONSTANTS, forms.STRUCTURE))
    if not held and others == {"parameter"} and _numbers(before) != _numbers(after):
        inputs = (f"{count(_numbers(side), 'input')} for its numbers" for side in (before, after))
        yield Change(None, "aliasing", *inputs)
    elif others <= _AROUND_NUMBERS and (held or alike):
        if not held and before.context[forms.TEXT.key()] == after.context[forms.TEXT.key()]:
            return  # nothing that can be seen differs
        is_input = held and (lost | gained) <= _COMPILED_IN
        yield _number(before, after, lost, gained) if is_input else _told_number(before, after)
    else:
        yield Change(None, "graph", _nodes(before), _nodes(after))


def _of_counts(before: Signature, after: Signature) -> Iterator[Change]:
    """What the mere counts tell of a graph that was not looked at before it was compiled."""
    sides = (before, after)
    if forms.FROM_A_LOG.key() in after.context:  # nothing else was seen, either: no variable, no gradient
        return
    by_side = [[side.context.get(form.key()) for form in (forms.GRAPH_NODES, forms.GRAPH_OUTPUTS)] for side in sides]
    if by_side[0] != by_side[1]:
        yield Change(None, "graph", _nodes(before), _nodes(after))
    elif more := _more_inputs(before, after):
        change = _number(before, after, *((_COMPILED_IN, set()) if more > 0 else (set(), _COMPILED_IN)))
        counts = all((text or "").isdigit() for text in (change.before, change.after))
        if change.argument is not None and not counts:  # else two numbers, equal in one of the graphs, may be why
            yield change


def _number(before: Signature, after: Signature, lost: set[float], gained: set[float]) -> Change:
    """The number that the one graph holds (or its negative), and the other does not; by the name of a variable whose
    value it is."""
    old, new = forms.NUMBER.of(before.context), forms.NUMBER.of(after.context)
    changed = {name: (old[name], now) for name, now in new.items() if name in old and old[name] != now}
    held = [name for name, (was, now) in changed.items() if _is_one_of(was, lost) or _is_one_of(now, gained)]
    if len({changed[name] for name in held}) == 1:  # of several alike: a setting, which is what variables are for
        name = max(held, key=lambda name: ".param_groups[" in name)
        return Change(name, "baked_constant", *changed[name])
    one = [f"{next(iter(values)):g}" if len(values) == 1 else None for values in (lost, gained)]
    return Change(None, "baked_constant", one[0] or "an input", one[1] or "an input")


def _told_number(before: Signature, after: Signature) -> Change:
    """The number that says how an operation works: a variable that has merely changed is none, its values must be among
    the numbers that differ or, where these have but changed places, among the constants."""
    held = [_values(_constants(side)) for side in (before, after)]
    numbers = [values | set(map(float, _told(side))) for values, side in zip(held, (before, after), strict=True)]
    differing = numbers[0] ^ numbers[1]
    change = _number(before, after, differing or held[0] & held[1], differing or set())
    if change.argument is None or not (differing or _is_one_of(change.after or "", held[1])):
        return Change(None, "baked_constant", "a number", "another")
    return change


def _is_one_of(text: str, values: set[float]) -> bool:
    try:
        number = float(text)
    except ValueError:
        number = {"True": 1.0, "False": 0.0}.get(text, math.nan)
    return any(math.isclose(abs(number), abs(value), rel_tol=1e-6) for value in values)


# --- evidence -------------------------------------------------------------------------------------------------


def _of_state(before: Signature, after: Signature) -> Iterator[str]:
    """The optimizer's state that has become an input, by key and parameter."""
    states = _new_states(before, after)
    by_key = gathered((match[3], f"{match[2]} {after.inputs[match[0]]}") for match in states)
    if states:
        total = sum(_bytes(after.inputs[match[0]]) for match in states)
        parameters = count(len({match[2] for match in states}), "parameter")
        yield f"new inputs: {len(states)} tensors of optimizer state, of {parameters}, {total:,} bytes"
    for key, names in by_key.items():
        yield f"{key} of {', '.join(names)}"


def _of_setup(before: Signature, after: Signature) -> Iterator[str]:
    if older := _older(before, after):
        named = ", ".join(f"{name} {after.inputs.get(name, '')}" for name in older)
        yield f"computed within the graph of the step before, inputs now: {named}"


def _of_graphs(before: Signature, after: Signature) -> Iterator[str]:
    for what, counts in (("operations", _operations), ("constants", _constants)):
        old, new = counts(before), counts(after)
        for word, difference in (("only before", old - new), ("only now", new - old)):
            if old and new and difference:
                named = ", ".join(f"{count} × {name}" for name, count in difference.most_common())  # noqa: RUF001
                yield f"{what} {word}: {named}"


# --- small ----------------------------------------------------------------------------------------------------


def _is_exact(signature: Signature) -> bool:
    """Whether the graph itself was looked at, and not only what was there after it had been compiled."""
    return forms.OPERATIONS.key() in signature.context


def _counted(form: forms.Form, signature: Signature) -> Counter[str]:
    return forms.counts_in(signature.context.get(form.key(), ""))


_operations, _constants = partial(_counted, forms.OPERATIONS), partial(_counted, forms.CONSTANTS)
_results, _told = partial(_counted, forms.RESULTS), partial(_counted, forms.ATTRIBUTES)


def _values(constants: Iterable[str]) -> set[float]:
    """The numbers among constants such as "f32[] 0.5"."""
    values = set()
    for text in constants:
        try:
            values.add(float(text.rpartition(" ")[2]))
        except ValueError:
            continue
    return values


def _numbers(signature: Signature) -> int:
    return sum(name.startswith(_NUMBER) for name in signature.inputs)


def _nodes(signature: Signature) -> str | None:
    count = signature.context.get(forms.GRAPH_NODES.key())
    return f"{count} operations" if count is not None else None


def _bytes(type_: str) -> int:
    """The size of a tensor from its abstract value."""
    if (match := _TYPE.fullmatch(type_)) is None:
        return 0
    return max(1, int(match[1] or 8) // 8) * math.prod(int(size) for size in match[2].split(",") if size)


# --- remedies -----------------------------------------------------------------------------------------------------

READ_AFTER_SYNC = "Read values after torch_xla.sync(), not before: each read compiles and runs the pending work."

REMEDIES = {
    "shape": Row("torch_xla compiles once for each shape: {fixed}.", changes="data"),
    "training_mode": Row("Two modes are two graphs: that is no growth. Run both once before you measure.", how="none"),
    "optimizer_state": Row(
        "Give each parameter p its state before the first step, {argument}[p] = {{key: torch.zeros_like(p), …}} for "
        "the keys {after} (a 'step' is torch.tensor(0.0)), then call torch_xla.sync() once.",
        under="{state}",
    ),
    "gradient_state": Row(
        "Begin each step with the same gradients: optimizer.zero_grad(), which makes them None, before every backward; "
        "or, to add to them, zeros and a torch_xla.sync() before the first."
    ),
    "pending_setup": Row(
        "Call torch_xla.sync() once before the loop: {argument} was still to be computed when the first step began, so "
        "that step's graph computed it, too."
    ),
    "host_read": Row(READ_AFTER_SYNC),
    "baked_constant": Row(
        "torch_xla compiles 0 and 1 into a graph, and takes other numbers as inputs: keep {argument} away from both, "
        "or in a tensor of one element, torch.tensor([…], device=device)."
    ),
    "number of an operation": Row(
        "A number that sets how an operation works (a shift, an axis, a size) is compiled in, and {argument} changed: "
        "each value is a graph of its own, so keep them few."
    ),
    "aliasing": Row(
        "torch_xla gives Python numbers of equal value one input, and two were equal in one of the two graphs only: "
        "keep one of them in a tensor of one element, torch.tensor([…], device=device), made before the loop."
    ),
    "graph": Row(
        "Do the same operations in each step: torch.where or a factor in a tensor instead of a Python branch; with "
        'torch.compile(backend="openxla"), compile the loss, too.'
    ),
}
"""By cause: what to change. `coldstep.analysis.advice` chooses."""
