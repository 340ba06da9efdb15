"""Which ranks of a large job are worth a place on one timeline: those that differ, and one of each other kind."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from coldstep._util.slotted import slotted
from coldstep.model import Trace

MOST = 16
"""Ranks that a timeline has room for, where nobody asks for others."""
_RARE = 5  # a kind of which there are at most one in so many differs


@slotted
class Chosen:
    """The traces that are taken, by their positions, and what for."""

    taken: list[int]
    """In order."""
    differ: list[int]
    """Those of them that differ from most."""
    stand_for: dict[int, int]
    """For how many of its kind, itself included, each of the others stands."""


def kind(trace: Trace) -> str:
    """The same for traces that compiled the same, for the same reasons, and ended alike."""
    compiled = [
        (row.process, row.key, row.outcome, row.program, [(leaf.argument, leaf.type) for leaf in row.inputs or ()])
        for row in trace.compiles
    ]
    again = [(row.compile, row.cause, row.argument, row.step) for row in trace.recompiles]
    ended = [row.ended for row in trace.processes]
    return hashlib.sha256(repr((compiled, again, ended)).encode("utf-8", "replace")).hexdigest()


def chosen(kinds: Sequence[str]) -> Chosen:
    """Those of a job to be shown, at most `MOST`: first one of each kind, the usual and then the rarest first."""
    counts = Counter(kinds)
    first = {name: kinds.index(name) for name in counts}
    usual = counts.most_common(1)[0][0]
    by_rarity = sorted(counts, key=lambda name: (name != usual, counts[name], first[name]))
    rare = {name for name in by_rarity if name != usual and counts[name] * _RARE <= len(kinds)}
    taken = [first[name] for name in by_rarity][:MOST]
    taken += [at for at, name in enumerate(kinds) if name in rare and at not in taken][: MOST - len(taken)]
    return Chosen(
        sorted(taken),
        sorted(at for at in taken if kinds[at] in rare),
        {at: counts[kinds[at]] for at in sorted(taken) if kinds[at] not in rare},
    )
