"""What a compile was specialised on; of two such signatures what differs, and which earlier one is nearest.

The process that is traced needs this much of the model, and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import ne

from coldstep import context as forms
from coldstep._util.expressions import expression
from coldstep._util.slotted import field, slotted
from coldstep.events import Args

# coldstep: "f32[3] @cpu:1 committed"
_ARRAY = expression(r"([a-z][0-9a-z_]*(?:<\w+>)?)\[([^\]]*)\]((?: \S+)*)")
_FLAGS = {
    "weak": "weak_type",
    "committed": "committed",
    "requires_grad": "requires_grad",
    "frozen": "requires_grad",
    **dict.fromkeys(("variable", "ragged", "sparse", "slices"), "type"),
}
# coldstep: "None"
_CLASS = expression(r"(?!(?:True|False)\b)[A-Za-z_][\w.]*")
# coldstep: "Config #2"
_OBJECT = expression(r"[A-Za-z_<][\w.<>]* #\d+|freed object")
# coldstep: "@cpu:1"
_DEVICE = expression(r"@?[a-z]+:\d+|")
_CAPTURED = (forms.CLOSURE, forms.GLOBAL, forms.ATTRIBUTE)
_OF_THE_FUNCTION = {"new_function", "closure", "global", "module_attribute", "cache_cleared"}
_PLACES = {"device", "sharding", "config"}
_ORDER: tuple[set[str], ...] = (
    {"new_function", "closure", "global", "module_attribute"},  # another function shares nothing with the first
    {"config"},  # a mode may itself change what the arguments become: x64
    {"keyword", "pytree", "type", "static_argument"},
    set(),  # all that stands nowhere here
    {"committed", "donation"},  # arrays are pinned by another array, too
    {"cache_cleared"},
)
"""Which of several changes comes first: the one that explains the others, or is enough alone."""


_FEW = 8
_MOST_LEAVES = 1 << 13  # of earlier signatures that a new one is held against, where these are more than a few


@slotted
class Signature:
    """What a compile was specialised on: abstract values by argument path, and the rest by name."""

    inputs: dict[str, str] = field(default_factory=dict)
    """Abstract values, by path."""
    context: dict[str, str] = field(default_factory=dict)
    """The rest, by name."""


@slotted
class Change:
    """One difference between two signatures; `mechanism` is a word of the taxonomy."""

    argument: str | None
    """The path of what differs; None where it is no argument's."""
    mechanism: str
    """One of the trace's `vocabulary.causes`."""
    before: str | None
    """As it was; None where it was not there, or not seen."""
    after: str | None
    """As it is."""


@slotted
class ArrayType:
    """An abstract value, taken apart."""

    dtype: str
    """As in HLO: "bf16"."""
    dims: str
    """Separated by commas."""
    flags: set[str]
    """Further words: "weak", "committed"."""
    layout: str
    """Strides, or another layout than the usual; else empty."""
    place: str
    """Where it lies, after an @; empty where everything lies by default."""


def signature_of(args: Args) -> Signature:
    """The signature in a compile's arguments; a path that occurs twice gets its position."""
    seen: Counter[str] = Counter()
    inputs: dict[str, str] = {}
    for row in args.get("inputs") or ():
        name = str(row["argument"])
        seen[name] += 1
        inputs[name if seen[name] == 1 else f"{name} #{seen[name]}"] = str(row["type"])
    return Signature(inputs, forms.context_of(args.get("context")))


def differences(before: Signature, after: Signature) -> list[Change]:
    """All that differs; what explains the others first, arguments in the order of the newer signature."""
    changes: list[Change] = []
    if before.inputs != after.inputs or before.context != after.context:
        changes += _of_arguments(before, after)
        changes += _of_context(before, after)
        if sum(change.mechanism in _PLACES for change in changes) > 1:  # where it ran followed from another change
            changes = [change for change in changes if change.argument is not None or change.mechanism != "device"]
        if not changes:  # only in what describes something else, and that does not differ
            changes.append(Change(None, "unknown", None, None))
        changes.sort(key=lambda change: _rank(change.mechanism))
    return changes


def nearest(earlier: Sequence[Signature], new: Signature) -> int:
    """The position of the signature that differs from `new` in the fewest places; the latest of equals.

    A function object is no place: another one is as near as the same one, if it was called alike. Of many with many
    inputs the latest are looked at, and of those that are equally near a few closely: a program waits for this.
    """
    first = max(0, len(earlier) - max(_FEW, _MOST_LEAVES // (1 + len(new.inputs))))
    leaves = [_leaves_that_differ(old.inputs, new.inputs) for old in earlier[first:]]

    def distance(position: int) -> tuple[int, int, int]:
        old = earlier[first + position]
        changes = differences(old, new)
        names = old.inputs.keys() | new.inputs.keys()
        beside = [change for change in changes if change.argument not in names]
        places = sum(change.mechanism not in _OF_THE_FUNCTION for change in beside)
        return leaves[position] + places, len(changes), -position

    likely, *others = sorted(range(len(leaves)), key=lambda position: (leaves[position], -position))
    best = distance(likely)
    for position in others[: _FEW - 1]:
        # leaves that differ are a change at least: all that follow are farther, and need no closer look
        if best < (leaves[position], min(leaves[position], 1), -position):
            break
        best = min(best, distance(position))
    return first - best[2]


def _leaves_that_differ(old: dict[str, str], new: dict[str, str]) -> int:
    if old.keys() == new.keys():
        return sum(map(ne, map(old.__getitem__, new), new.values()))
    return sum(old.get(name) != new.get(name) for name in old.keys() | new.keys())


def _rank(mechanism: str) -> int:
    return next((rank for rank, group in enumerate(_ORDER) if mechanism in group), _ORDER.index(set()))


# --- arguments ------------------------------------------------------------------------------------------------


def _of_arguments(before: Signature, after: Signature) -> Iterator[Change]:
    """One change for each place that differs: of a part that only one side has, for the place that has got it."""
    old, new = _places(before), _places(after)
    old_static, new_static = forms.STATIC.of(before.context), forms.STATIC.of(after.context)
    old_call, new_call = _call(before), _call(after)
    covered: set[str] = set()
    for name in dict.fromkeys([*new_call, *old_call]) if old_call and new_call else ():
        if old_call.get(name) == new_call.get(name):
            continue
        was, now = old_call.get(name), new_call.get(name)
        if was is None or now is None:
            covered.add(name)
            was, now = (side.get(name, static.get(name)) for side, static in ((old, old_static), (new, new_static)))
        yield Change(name, "keyword", was, now)
    for name in dict.fromkeys([*new, *old]):
        was, now = old.get(name), new.get(name)
        if was == now or any(part in covered for part in _with_parents(name)):
            continue
        mechanisms: Iterable[str]
        if was is None or now is None:
            mechanisms = [_of_structure(name, old, new)]
        elif any(forms.TREE.key(name) in side.context for side in (before, after)):
            mechanisms = ["type" if "None" in (was, now) else "pytree"]
            covered.add(name)
        else:
            mechanisms = _of_input(was, now)
        yield from (Change(name, mechanism, was, now) for mechanism in mechanisms)
    for name in dict.fromkeys([*new_static, *old_static]):
        was, now = old_static.get(name), new_static.get(name)
        if was != now and not any(part in covered for part in _with_parents(name)):
            yield Change(name, "static_argument", was, now)


def _places(signature: Signature) -> dict[str, str]:
    """What stands at each path: nodes of the tree, where they are known, and leaves."""
    return forms.TREE.of(signature.context) | signature.inputs


def _call(signature: Signature) -> dict[str, str]:
    """How each argument was passed."""
    passed = forms.names_in(signature.context.get(forms.CALL.key(), ""))
    return {name.removesuffix("="): "by keyword" if name.endswith("=") else "by position" for name in passed}


def _with_parents(path: str) -> Iterator[str]:
    """`path` and all that it may be a part of."""
    yield path
    for at, letter in enumerate(path):
        if letter in ".[":
            yield path[:at]


def _of_structure(name: str, old: dict[str, str], new: dict[str, str]) -> str:
    """A leaf that only one side has: of a tree that both have, or of an argument that came or went."""
    root = forms.root(name)
    return "pytree" if all(any(forms.root(path) == root for path in side) for side in (old, new)) else "keyword"


def _of_input(was: str, now: str) -> Iterator[str]:
    """The mechanisms by which an argument's abstract value differs."""
    old, new = array_of(was), array_of(now)
    if old is None or new is None:
        yield _of_values(was, now, arrays=old is not None or new is not None)
        return
    named = False
    for mechanism, differs in (
        ("dtype", old.dtype != new.dtype),
        ("shape", not _takes(old.dims, new.dims)),
        ("layout", old.layout != new.layout and (old.dims == new.dims or not (old.layout and new.layout))),
        (_of_devices(old.place, new.place), old.place != new.place),
        *((mechanism, (flag in old.flags) != (flag in new.flags)) for flag, mechanism in _FLAGS.items()),
    ):
        if differs:
            named = True
            yield mechanism
    if not named:
        yield "unknown"


def _takes(was: str, now: str) -> bool:
    """Whether dimensions fit into earlier ones, of which those that are None are open."""
    if "None" not in was and was != "*":
        return was == now
    old, new = was.split(","), now.split(",")
    fits = len(old) == len(new) and all(o in ("None", n) for o, n in zip(old, new, strict=True))
    return was == "*" or fits


def _of_values(was: str, now: str, *, arrays: bool) -> str:
    """The mechanism by which two values differ that are not both arrays."""
    if "None" in (was, now):
        return "type"
    objects = [_OBJECT.fullmatch(text) is not None for text in (was, now)]
    if any(objects):
        return "identity" if all(objects) else "type"
    kinds = [_kind(text) for text in (was, now)]
    if arrays:
        return "type" if any(kinds) else "unknown"
    if None in kinds or object in kinds:
        return "unknown"
    return "python_scalar" if kinds[0] is kinds[1] else "type"


def _kind(text: str) -> type | None:
    """The type of a Python value from its text, `object` for the name of a class; None for what is neither."""
    if _CLASS.fullmatch(text):
        return object
    from coldstep._util import python_text  # what parses takes milliseconds to import

    try:
        return type(python_text.literal(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _of_devices(old: str, new: str) -> str:
    return "device" if _DEVICE.fullmatch(old) and _DEVICE.fullmatch(new) else "sharding"


def array_of(text: str) -> ArrayType | None:
    """An abstract value taken apart; None for one that is no array's."""
    if (match := _ARRAY.fullmatch(text)) is None:
        return None
    words = match[3].split()
    flags = {word for word in words if word in _FLAGS}
    place = next((word for word in words if word.startswith("@")), "")
    layout = " ".join(word for word in words if word not in flags and word != place)
    return ArrayType(match[1], match[2], flags, layout, place)


# --- context --------------------------------------------------------------------------------------------------


def _of_context(before: Signature, after: Signature) -> Iterator[Change]:
    old, new = before.context, after.context
    arguments = before.inputs.keys() | after.inputs.keys()
    differing = [(key, forms.parsed(key)) for key in dict.fromkeys([*new, *old]) if old.get(key) != new.get(key)]
    captured = any(known is not None and _is_captured(*known, arguments) for _, known in differing)
    for key, known in differing:
        form, place = known or (None, "")
        was, now = old.get(key), new.get(key)
        if form is forms.CAUSE:  # of a collector of others: it says itself which cause that is
            cause, _, place = place.partition(" ")
            yield Change(place or None, cause, was, now)
        elif form is None or form.cause == "unknown":
            yield Change(key, "unknown", was, now)
        elif form is forms.DONATED:
            yield from _of_donation(was or "", now or "")
        elif form is forms.CONFIG:
            usual = old.get(forms.USUAL.key(place), new.get(forms.USUAL.key(place)))
            yield Change(place, forms.CONFIG.cause, was or usual, now or usual)
        elif form in (forms.IN_SHARDINGS, forms.OUT_SHARDINGS):
            yield Change(form.word, form.cause, was, now)
        elif form is forms.AUTOCAST:
            yield Change(None, form.cause, was or form.absent, now or form.absent)
        elif form.cause and not (form is forms.FUNCTION and captured):  # that is why it is another function
            yield Change(place or None, form.cause, was or form.absent, now or form.absent)


def _is_captured(form: forms.Form, place: str, arguments: Collection[str]) -> bool:
    """Whether an entry is of what the function holds."""
    return form in _CAPTURED or (form is forms.CAUSE and place.partition(" ")[2] not in arguments)


def _of_donation(was: str, now: str) -> Iterator[Change]:
    old, new = forms.names_in(was), forms.names_in(now)
    for name in dict.fromkeys([*new, *old]):
        if (name in old) != (name in new):
            words = "donated", "not donated"
            yield Change(name, forms.DONATED.cause, words[name not in old], words[name not in new])
