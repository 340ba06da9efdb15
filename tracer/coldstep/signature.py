"""Compares the signatures of two compiles: what differs, by mechanism, and which earlier one is nearest."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from coldstep.events import Args
from coldstep.model import Change, Signature

_ARRAY = re.compile(r"([a-z][0-9a-z_]*(?:<\w+>)?)\[([^\]]*)\]((?: \S+)*)")
_FLAGS = {"weak": "weak_type", "committed": "committed", "requires_grad": "requires_grad"}
_DEVICE = re.compile(r"@?[a-z]+:\d+|")
_CONTEXT = {
    "donated": "donation",
    "in_shardings": "sharding",
    "out_shardings": "sharding",
    "device": "device",
    "compiler_options": "config",
    "grad_mode": "grad_mode",
    "training": "training_mode",
}
_MODES = ("grad_mode", "training_mode", "autocast", "donation", "config")


@dataclass(slots=True)
class _Array:
    """An abstract value, taken apart."""

    dtype: str
    dims: str
    flags: set[str]
    layout: str
    place: str


def signature_of(args: Args) -> Signature:
    """The signature that a compile's arguments tell; a path that occurs twice is told apart by its position."""
    seen: Counter[str] = Counter()
    inputs: dict[str, str] = {}
    for row in args.get("inputs") or ():
        name = str(row["argument"])
        seen[name] += 1
        inputs[name if seen[name] == 1 else f"{name} #{seen[name]}"] = str(row["type"])
    return Signature(inputs, {str(k): str(v) for k, v in (args.get("context") or {}).items()})


def differences(before: Signature, after: Signature) -> list[Change]:
    """All that differs, arguments in the order of the newer signature first, then the context."""
    changes: list[Change] = []
    if before.inputs != after.inputs:
        for name in dict.fromkeys([*after.inputs, *before.inputs]):
            was, now = before.inputs.get(name), after.inputs.get(name)
            if was != now:
                missing = was is None or now is None
                mechanisms: Iterable[str] = (
                    [_of_structure(name, before, after)] if missing else _of_input(was or "", now or "")
                )
                changes.extend(Change(name, mechanism, was, now) for mechanism in mechanisms)
    if before.context != after.context:
        for name in dict.fromkeys([*after.context, *before.context]):
            was, now = before.context.get(name), after.context.get(name)
            if was != now:
                changes.append(_of_context(name, was, now))
    return changes


def nearest(earlier: Sequence[Signature], new: Signature) -> int:
    """The position of the signature that differs from `new` in the fewest places; the latest of equals."""
    return min(range(len(earlier)), key=lambda i: (len(differences(earlier[i], new)), -i))


def _of_structure(name: str, before: Signature, after: Signature) -> str:
    """A leaf that only one side has: of a tree that both have, or of an argument that came or went."""
    root = _root(name)
    return "pytree" if all(any(_root(path) == root for path in side.inputs) for side in (before, after)) else "keyword"


def _root(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _of_input(was: str, now: str) -> Iterator[str]:
    """The mechanisms by which an argument's abstract value differs."""
    old, new = _array(was), _array(now)
    if old is None or new is None:
        yield _of_values(was, now, arrays=old is not None or new is not None)
        return
    found = False
    for mechanism, differs in (
        ("dtype", old.dtype != new.dtype),
        ("shape", old.dims != new.dims),
        *((mechanism, (flag in old.flags) != (flag in new.flags)) for flag, mechanism in _FLAGS.items()),
        ("layout", old.layout != new.layout and old.dims == new.dims),
        (_of_places(old.place, new.place), old.place != new.place),
    ):
        if differs:
            found = True
            yield mechanism
    if not found:
        yield "unknown"


def _of_values(was: str, now: str, *, arrays: bool) -> str:
    """The mechanism by which two values differ that are not both arrays."""
    if arrays or "None" in (was, now):
        return "type"
    try:
        old, new = ast.literal_eval(was), ast.literal_eval(now)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return "unknown"
    return "python_scalar" if type(old) is type(new) else "type"


def _of_places(old: str, new: str) -> str:
    return "device" if _DEVICE.fullmatch(old) and _DEVICE.fullmatch(new) else "sharding"


def _of_context(name: str, was: str | None, now: str | None) -> Change:
    if name.startswith("static "):
        return Change(name.removeprefix("static "), "static_argument", was, now)
    if name.startswith("config "):
        return Change(name.removeprefix("config "), "config", was, now)
    if name.startswith("autocast"):
        return Change(None, "autocast", was or "off", now or "off")
    mechanism = _CONTEXT.get(name, "unknown")
    return Change(None if mechanism in _MODES else name, mechanism, was, now)


def _array(text: str) -> _Array | None:
    match = _ARRAY.fullmatch(text)
    if match is None:
        return None
    words = match[3].split()
    flags = {word for word in words if word in _FLAGS}
    place = next((word for word in words if word.startswith("@")), "")
    layout = " ".join(word for word in words if word not in flags and word != place)
    return _Array(match[1], match[2], flags, layout, place)
