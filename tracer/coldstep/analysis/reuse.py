"""Why a program that had been compiled is compiled again: one run's next process foretold, or two runs held together.

A run's time, in the ledger's phases, is divided into what a further process pays again, what it loads, and the rest;
the three add up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from coldstep.analysis.cache_keys import CACHE_FOLDER, Difference, key_differences
from coldstep.analysis.compare import key_of
from coldstep.intervals import parts, phases_of
from coldstep.model import UNATTRIBUTED, Cache, Compile, Trace
from coldstep.signature import differences
from coldstep.slotted import slotted
from coldstep.vocabulary import IMPORTS, is_of_program

SCHEMA = "coldstep-cache/1"
BEFORE = "before the trace"
HIT, MISSED, NOT_WRITTEN, BYPASSED, OFF = "hit", "missed", "not_written", "bypassed", "off"
NEW, GONE = "new", "gone"

_WHOLE = "aot.autograd"
"""The layer that has a function's graphs whole."""
_COVERED = {
    "xla.persistent": ("xla.compile",),
    _WHOLE: ("aot.joint", "aot.partition", "aot.backward"),
    "inductor.fx_graph": ("inductor.passes", "inductor.lowering", "inductor.codegen"),
    "inductor.cpp": ("inductor.cpp",),
    "triton": ("inductor.triton",),
    "torch_xla.persistent": ("torch_xla.compile",),
}
"""The phases that an entry of each layer saves."""
_WHY = {
    BEFORE: "no cache covers it",
    IMPORTS: "no cache covers it",
    "execute": "it runs in every process",
    "transfer": "it happens in every process",
    "gc": "it happens in every process",
    "coldstep": "only under coldstep",
}
_KERNELS_LOST = (
    "the graphs were loaded, their C++ kernels were not there: a Mega-cache holds none, and another folder of torch's "
    "or of the compiler's is another command line"
)
_NOT_LOADED = "of what is not loaded"
_NO_CACHE = "no cache covers it"


@slotted
class Program:
    """What one cache has of one program, and why it has not."""

    function: str
    program: str | None
    layer: str
    part: str | None
    earlier: str | None
    """The id of its compile in the earlier run."""
    later: str | None
    """In the later one; None where there is none."""
    verdict: str
    components: list[Difference]
    """What the keys differ in."""
    why: str | None
    """A word of `vocabulary.UNWRITTEN`."""
    why_text: str
    cost_ns: int
    """What it cost, or will cost, that an entry would have saved; 0 of a hit."""
    origin: str | None
    rank: int | None = None
    """Of a job of several processes: whose it is."""


@slotted
class Again:
    """Time that a further process pays again."""

    what: str
    """A phase, or a sum of some."""
    ns: int
    why: str


@slotted
class SecondRun:
    """A further process's time: `again_ns`, `load_ns` and `unattributed_ns` add up to `wall_ns`."""

    wall_ns: int
    again_ns: int
    load_ns: int
    saved_ns: int
    """What it does not pay, for it loads instead."""
    unattributed_ns: int


@slotted
class Reuse:
    """What is reused of a run, and what is not."""

    programs: list[Program]
    again: list[Again]
    second_run: SecondRun


@slotted
class _Asked:
    """A compile, and one cache's word on it."""

    compile: Compile
    cache: Cache


def foretold(trace: Trace, process: int = 0) -> Reuse:
    """What a process like this one would load if it ran after it, and what it would pay again."""
    asked = list(_asked(trace, process))
    set_late = {
        layer for layer in _COVERED if any(row.cache.layer == layer and row.cache.state != "off" for row in asked)
    }
    programs, saved, load = [], Counter[str](), 0
    own = _own_phases(trace, process)
    for row in asked:
        found = _foretold(row, late=row.cache.layer in set_late)
        covered = {phase: own[row.compile.id].get(phase, 0) for phase in _COVERED.get(row.cache.layer, ())}
        if found.verdict != HIT:
            found.cost_ns = sum(covered.values())
        elif row.cache.state == "hit":
            taken = _taken(covered, row.cache.load_ns or 0)
            load += sum(taken.values())
            saved.update(taken)
        else:  # reading takes about as long as it took to make the key and to store the entry
            load += min(row.cache.self_ns or 0, sum(covered.values()))
            saved.update(covered | _garbage(covered, own[row.compile.id]))
        programs.append(found)
    again, second = _ledger(trace, process, saved, load)
    second.saved_ns += sum(row.cache.saved_ns or 0 for row in asked if row.cache.state == "hit")
    return Reuse(programs, again, second)


def compared(earlier: Trace, later: Trace, process: int = 0, other: int = 0) -> Reuse:
    """Program by program: whether the later run loaded it, and what kept it from that. `process` is the earlier's,
    `other` the later's."""
    own = _own_phases(later, other)
    programs = []
    for before, after in _pairs(list(_asked(earlier, process)), list(_asked(later, other))):
        found = _verdict(before, after, earlier, later)
        if after is not None and found.verdict != HIT:
            phases = own[after.compile.id]
            found.cost_ns = sum(phases.get(phase, 0) for phase in _COVERED.get(after.cache.layer, ()))
        programs.append(found)
    loads, load = Counter[str](), 0
    for row in _asked(later, other):
        if row.cache.state == "hit":
            covered = {phase: own[row.compile.id].get(phase, 0) for phase in _COVERED.get(row.cache.layer, ())}
            taken = _taken(covered, row.cache.load_ns or 0)
            loads.update(taken)
            load += sum(taken.values())
    again, second = _ledger(later, other, loads, load)
    second.saved_ns = sum(row.cache.saved_ns or 0 for row in _asked(later, other))
    return Reuse(programs, again, second)


def missed(earlier: Trace, later: Trace, process: int = 0, other: int = 0) -> list[Program]:
    """What the later run compiled again: programs that the earlier one had asked the same cache for."""
    off = {
        (row.compile.id, row.cache.layer, row.cache.part)
        for row in _asked(earlier, process)
        if row.cache.state in ("off", "bypass")
    }
    return [
        row
        for row in compared(earlier, later, process, other).programs
        if row.verdict in (MISSED, NOT_WRITTEN)
        or (row.verdict in (OFF, BYPASSED) and row.earlier and (row.earlier, row.layer, row.part) not in off)
    ]


# --- one run ------------------------------------------------------------------------------------------------------


def _foretold(row: _Asked, *, late: bool) -> Program:
    cache = row.cache
    if cache.state == "hit" or (cache.written and cache.state in ("miss", "guard_miss", "unreadable")):
        return _program(row, None, HIT)
    if cache.state == "off":
        if late and cache.why == "disabled" and cache.key:
            return _program(row, None, OFF, why="late", why_text="it was compiled before the cache's directory was set")
        return _program(row, None, OFF, why=cache.why, why_text=cache.why_text)
    if cache.state == "bypass":
        return _program(row, None, BYPASSED, why=cache.why, why_text=cache.why_text)
    text = cache.why_text or ("" if cache.written is False else "whether it was stored was not seen")
    return _program(row, None, NOT_WRITTEN, why=cache.why, why_text=text)


def _program(
    earlier: _Asked | None,
    later: _Asked | None,
    verdict: str,
    *,
    components: Sequence[Difference] = (),
    why: str | None = None,
    why_text: str = "",
) -> Program:
    row = later or earlier
    assert row is not None
    return Program(
        function=row.compile.function,
        program=row.compile.program,
        layer=row.cache.layer,
        part=row.cache.part,
        earlier=earlier.compile.id if earlier else None,
        later=later.compile.id if later else None,
        verdict=verdict,
        components=list(components),
        why=why,
        why_text=why_text,
        cost_ns=0,
        origin=row.compile.origin,
    )


# --- two runs -----------------------------------------------------------------------------------------------------


def _verdict(before: _Asked | None, after: _Asked | None, earlier: Trace, later: Trace) -> Program:
    if after is None:
        return _program(before, None, GONE)
    cache = after.cache
    if cache.state == "hit":
        return _program(before, after, HIT)
    if cache.state in ("off", "bypass"):
        verdict = OFF if cache.state == "off" else BYPASSED
        return _program(before, after, verdict, why=cache.why, why_text=cache.why_text)
    if before is None:
        return _program(None, after, NEW)
    if cache.layer == "inductor.cpp":
        loaded = any(row.layer == "inductor.fx_graph" and row.state == "hit" for row in after.compile.caches)
        return _program(before, after, MISSED, why_text=_KERNELS_LOST if loaded else "kernels of graphs not loaded")
    if cache.state == "unreadable":
        return _program(before, after, MISSED, why="corrupt", why_text=cache.why_text)
    same = _same_program(before, after)
    was, now = earlier.details[before.compile.id].signature, later.details[after.compile.id].signature
    differ = key_differences(before.cache, cache, [] if same else differences(was, now))
    if differ and before.cache.key != cache.key:
        return _program(before, after, MISSED, components=differ, why_text=_in_words(differ, same))
    if before.cache.key is None or cache.key is None or before.cache.key != cache.key:
        return _program(before, after, MISSED, why_text="what its key is made of was not seen")
    if before.cache.written is False:
        return _program(before, after, NOT_WRITTEN, why=before.cache.why, why_text=before.cache.why_text)
    if before.cache.state == "off":
        return _program(before, after, NOT_WRITTEN, why="disabled", why_text="the cache was off in the earlier run")
    text = "its entry was not there: evicted, or in another directory"
    return _program(before, after, MISSED, why="evicted", why_text=text)


def _in_words(differ: list[Difference], same: bool) -> str:
    """What is to be said beyond the values."""
    if same and any(row.name in ("aot_config", "gm") for row in differ):
        return "the same program: what it calls its variables and attributes is part of this key"
    if any(row.name.endswith(CACHE_FOLDER) for row in differ):
        return "the cache's directory is another: it is part of JAX's key"
    return ""


def _pairs(earlier: list[_Asked], later: list[_Asked]) -> Iterator[tuple[_Asked | None, _Asked | None]]:
    """Each program of one run beside its like in the other, in the order of the later; those gone come last."""
    groups: dict[object, tuple[list[_Asked], list[_Asked]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((earlier, later)):
        for row in rows:
            groups[key_of(row.compile), row.cache.layer, row.cache.part][side].append(row)
    partner: dict[int, _Asked] = {}
    for old, new in groups.values():
        partner |= _matched(old, new)
    taken = set()
    for row in later:
        found = partner.get(id(row))
        taken.add(id(found))
        yield found, row
    # what AOTAutograd's cache gave back whole was asked of none below it, or without the parts' names
    whole = {row.compile.id for row in later if (row.cache.layer, row.cache.state) == (_WHOLE, "hit")}
    instead = {
        found.compile.id for row in later if row.compile.id in whole and (found := partner.get(id(row))) is not None
    }
    for row in earlier:
        if id(row) not in taken and not (row.compile.id in instead and row.cache.layer != _WHOLE):
            yield row, None


def _matched(old: list[_Asked], new: list[_Asked]) -> dict[int, _Asked]:
    """Of the compiles of one function: by key, then by program, then whichever has most in common."""
    found: dict[int, _Asked] = {}
    left = list(old)
    for same in (_same_key, _same_program):
        for row in new:
            like = next((each for each in left if same(each, row)), None) if id(row) not in found else None
            if like is not None:
                found[id(row)] = like
                left.remove(like)
    for row in new:
        candidates = [each for each in left if _comparable(each, row)]
        if id(row) not in found and candidates:
            found[id(row)] = max(candidates, key=lambda each: _in_common(each, row))
            left.remove(found[id(row)])
    return found


def _same_key(a: _Asked, b: _Asked) -> bool:
    return a.cache.key is not None and a.cache.key == b.cache.key


def _same_program(a: _Asked, b: _Asked) -> bool:
    return a.compile.program is not None and a.compile.program == b.compile.program


def _comparable(a: _Asked, b: _Asked) -> bool:
    """Whether two programs may be one that has changed; of eager operations each is a program of its own."""
    return b.compile.origin not in ("eager", "library") or _environment(a) != _environment(b)


def _environment(row: _Asked) -> set[tuple[str, str]]:
    return {(each.name, each.hash) for each in row.cache.components if not is_of_program(each.name)}


def _in_common(a: _Asked, b: _Asked) -> int:
    hashes = {(each.name, each.hash) for each in a.cache.components}
    return sum((each.name, each.hash) in hashes for each in b.cache.components)


# --- time ---------------------------------------------------------------------------------------------------------


def _asked(trace: Trace, process: int) -> Iterator[_Asked]:
    for row in trace.compiles:
        if row.process == process:
            yield from (_Asked(row, cache) for cache in row.caches if cache.layer in _COVERED)


def _own_phases(trace: Trace, process: int) -> dict[str, Counter[str]]:
    """Of each compile the time by phase, without that of the compiles nested in it."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in trace.compiles:
        if row.process != process:
            continue
        for segment in row.segments:
            found[row.id].update(segment.phases)
            if row.parent is not None:
                found[row.parent].subtract(segment.phases)
    return found


def _taken(covered: dict[str, int], ns: int) -> Counter[str]:
    """So much of the phases, in their order."""
    found: Counter[str] = Counter()
    for phase, had in covered.items():
        found[phase] = min(had, ns)
        ns -= found[phase]
    return found


def _garbage(covered: dict[str, int], own: Counter[str]) -> dict[str, int]:
    """The share of a compile's garbage collection that goes with these phases: it is collected where it is made."""
    others = sum(own.values()) - own["gc"]
    return {"gc": max(0, own["gc"]) * sum(covered.values()) // others} if others > 0 else {}


def _ledger(trace: Trace, process: int, saved: Counter[str], load_ns: int) -> tuple[list[Again], SecondRun]:
    """The process's time less what it saves, and what it loads instead."""
    row = trace.processes[process]
    spent: Counter[str] = Counter({BEFORE: row.before_trace_ns})
    phases = phases_of((part for part in parts(trace.intervals) if part.process == process), between=True)
    unattributed = phases.pop(UNATTRIBUTED, 0)
    for phase, ns in phases.items():
        spent[IMPORTS if phase.startswith("import.") else phase] += ns
    cut = {phase: min(max(0, ns), spent[phase]) for phase, ns in saved.items()}
    loadable = {phase for phases in _COVERED.values() for phase in phases}
    again = [
        Again(phase, ns - cut.get(phase, 0), _WHY.get(phase, _NOT_LOADED if phase in loadable else _NO_CACHE))
        for phase, ns in spent.items()
        if ns > cut.get(phase, 0)
    ]
    again.sort(key=lambda each: -each.ns)
    paid = sum(each.ns for each in again)
    saved_ns = max(0, sum(cut.values()) - load_ns)
    return again, SecondRun(paid + load_ns + unattributed, paid, load_ns, saved_ns, unattributed)
