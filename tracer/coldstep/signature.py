"""Compares the signatures of two compiles: what differs, and which earlier one is nearest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from coldstep.events import Args
from coldstep.model import Change, Signature

_ARRAY = re.compile(r"([a-z]+[0-9a-z_]*)\[([^\]]*)\](.*)", re.DOTALL)


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
    """All that differs, arguments first; `mechanism` is `shape` or `dtype`, or `unknown` for all else."""
    changes: list[Change] = []
    for old, new in ((before.inputs, after.inputs), (before.context, after.context)):
        for name in old.keys() | new.keys() if old != new else ():
            was, now = old.get(name), new.get(name)
            if was != now:
                changes.extend(Change(name, mechanism, was, now) for mechanism in _mechanisms(was, now))
    order = {name: position for position, name in enumerate([*after.inputs, *before.inputs, *after.context])}
    return sorted(changes, key=lambda change: order.get(change.argument or "", len(order)))


def nearest(earlier: Sequence[Signature], new: Signature) -> int:
    """The position of the signature that differs from `new` in the fewest places; the latest of equals."""
    return min(range(len(earlier)), key=lambda i: (len(differences(earlier[i], new)), -i))


def _mechanisms(before: str | None, after: str | None) -> list[str]:
    old, new = _ARRAY.fullmatch(before or ""), _ARRAY.fullmatch(after or "")
    if not old or not new:
        return ["unknown"]
    found = [name for name, part in (("dtype", 1), ("shape", 2), ("unknown", 3)) if old[part] != new[part]]
    return found or ["unknown"]
