"""Which program of one run is which of another's: each compile beside its like, for every cache that was asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from coldstep._util.slotted import slotted
from coldstep.analysis.across.run_diff import key_of
from coldstep.model import Cache, Compile, Trace
from coldstep.vocabulary import is_of_program

WHOLE_LAYER, GRAPHS = "aot.autograd", "inductor.fx_graph"
"""The layer that has a function's graphs whole, and the one that it would else be asked of, graph by graph."""
COVERED = {
    "xla.persistent": ("xla.compile",),
    WHOLE_LAYER: ("aot.joint", "aot.partition", "aot.backward"),
    GRAPHS: ("inductor.passes", "inductor.lowering", "inductor.codegen"),
    "inductor.cpp": ("inductor.cpp",),
    "triton": ("inductor.triton",),
    "torch_xla.persistent": ("torch_xla.compile",),
}
"""The phases that an entry of each layer saves."""


@slotted
class Asked:
    """A compile, and one cache's word on it."""

    compile: Compile
    cache: Cache


def asked(trace: Trace, process: int) -> Iterator[Asked]:
    """All that a process asked its caches for."""
    for row in trace.compiles:
        if row.process == process:
            yield from (Asked(row, cache) for cache in row.caches if cache.layer in COVERED)


def pairs(earlier: list[Asked], later: list[Asked]) -> Iterator[tuple[Asked | None, Asked | None]]:
    """Each program of one run beside its like in the other, in the order of the later; those gone come last."""
    groups: dict[object, tuple[list[Asked], list[Asked]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((earlier, later)):
        for row in rows:
            groups[key_of(row.compile), row.cache.layer, row.cache.part][side].append(row)
    partner: dict[int, Asked] = {}
    for old, new in groups.values():
        partner |= _matched(old, new)
    partner |= _renamed(earlier, later, partner)
    partner |= _loaded_whole(earlier, later, partner)
    taken = set()
    for row in later:
        before = partner.get(id(row))
        taken.add(id(before))
        yield before, row
    # what AOTAutograd's cache gave back whole was asked of none below it, or without the parts' names
    whole = {row.compile.id for row in later if (row.cache.layer, row.cache.state) == (WHOLE_LAYER, "hit")}
    before_them = (partner.get(id(row)) for row in later if row.compile.id in whole)
    instead = {before.compile.id for before in before_them if before is not None}
    for row in earlier:
        if id(row) not in taken and not (row.compile.id in instead and row.cache.layer != WHOLE_LAYER):
            yield row, None


def _loaded_whole(earlier: list[Asked], later: list[Asked], partner: dict[int, Asked]) -> dict[int, Asked]:
    """Of graphs left over: those of a function that AOTAutograd's cache gave the earlier run whole; what is told of its
    graphs is then of all of them."""
    known = {row.compile.id: row for row in earlier if row.cache.layer == GRAPHS and row.cache.key is None}
    whole = {
        row.compile.id: known[like.compile.id]
        for row in later
        if row.cache.layer == WHOLE_LAYER and (like := partner.get(id(row))) is not None and like.compile.id in known
    }
    return {
        id(row): whole[row.compile.id]
        for row in later
        if row.cache.layer == GRAPHS and id(row) not in partner and row.compile.id in whole
    }


def same_program(a: Asked, b: Asked) -> bool:
    """Whether both compute the same."""
    return a.compile.program is not None and a.compile.program == b.compile.program


def _matched(old: list[Asked], new: list[Asked]) -> dict[int, Asked]:
    """Of the compiles of one function: by key; then whichever is nearest, best one that is no other's like."""
    left = list(old)
    matches = _taken(left, new, {}, _same_key)
    free = {id(row) for row in left}
    parts = {id(row): {(each.name, each.hash) for each in row.cache.components} for row in (*old, *new)}
    for row in new:
        candidates = [each for each in old if same_program(each, row) or _comparable(each, row)]
        if id(row) not in matches and candidates:
            nearest = max(
                candidates,
                key=lambda each: (
                    same_program(each, row),
                    len(parts[id(each)] & parts[id(row)]),
                    each.cache.state != "hit",  # one that was loaded does not know what its key is made of
                    id(each) in free,
                ),
            )
            matches[id(row)] = nearest
            free.discard(id(nearest))
    return matches


def _renamed(earlier: list[Asked], later: list[Asked], partner: dict[int, Asked]) -> dict[int, Asked]:
    """Of those left over: functions that are called otherwise now. They have one key, or stand in one place."""
    known = {id(row) for row in partner.values()}
    left = [row for row in earlier if id(row) not in known]
    return _taken(left, later, partner, _same_key, _same_place) if left else {}


def _taken(
    left: list[Asked], new: list[Asked], known: dict[int, Asked], *alike: Callable[[Asked, Asked], bool]
) -> dict[int, Asked]:
    """By each of these rules in turn, the first that is left; what is `known` has one already."""
    matches: dict[int, Asked] = {}
    for same in alike:
        for row in new:
            if id(row) in matches or id(row) in known:
                continue
            like = next((each for each in left if same(each, row)), None)
            if like is not None:
                matches[id(row)] = like
                left.remove(like)
    return matches


def _same_key(a: Asked, b: Asked) -> bool:
    return _same_layer(a, b) and a.cache.key is not None and a.cache.key == b.cache.key


def _same_layer(a: Asked, b: Asked) -> bool:
    return (a.cache.layer, a.cache.part) == (b.cache.layer, b.cache.part)


def _same_place(a: Asked, b: Asked) -> bool:
    """Whether both are the user's, defined on one line of one file, and take the same."""
    place = _place(a.compile)
    return place is not None and place == _place(b.compile) and _same_layer(a, b)


def _place(row: Compile) -> tuple[str, int, list[str]] | None:
    where = row.location if row.origin == "user" else None
    return (where.file, where.line, [each.type for each in row.inputs or ()]) if where and where.line else None


def _comparable(a: Asked, b: Asked) -> bool:
    """Whether two programs may be one that has changed; of eager operations each is a program of its own."""
    return b.compile.origin not in ("eager", "library") or _environment(a) != _environment(b)


def _environment(row: Asked) -> set[tuple[str, str]]:
    return {(each.name, each.hash) for each in row.cache.components if not is_of_program(each.name)}
