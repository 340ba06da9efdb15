"""Why a program that had been compiled is compiled again: one run's next process foretold, or two runs held together.

A run's time, in the ledger's phases, is divided into what a further process pays again, what it loads, and the rest;
the three add up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from coldstep._util.gathered import added_up
from coldstep._util.slotted import slotted
from coldstep.analysis.caches.keys import CACHE_FOLDER, COMPUTATION, WITH_PLACES, Difference, key_differences
from coldstep.analysis.caches.pairs import COVERED, GRAPHS, WHOLE_LAYER, Asked, asked, pairs, same_program
from coldstep.analysis.programs.sources import renumbered
from coldstep.analysis.unobserved import unseen_route
from coldstep.model import UNATTRIBUTED, Component, Trace
from coldstep.rows.intervals import imports_as_one, parts, phases_of
from coldstep.signature import Change, differences
from coldstep.vocabulary import IMPORTS, is_of_program

SCHEMA = "coldstep-cache/1"
BEFORE = "before the trace"
HIT, MISSED, NOT_WRITTEN, BYPASSED, OFF = "hit", "missed", "not_written", "bypassed", "off"
NEW, GONE, COSMETIC = "new", "gone", "cosmetic"
_UNASKED = {"off": OFF, "bypass": BYPASSED}
"""By the state of a cache that was not asked, what becomes of a program."""

_WHY = {
    BEFORE: "no cache covers it",
    IMPORTS: "no cache covers it",
    "execute": "it runs in every process",
    "transfer": "it happens in every process",
    "gc": "it happens in every process",
    "inductor.cache": "every process looks there",
    "coldstep": "only under coldstep",
}
_KERNELS_LOST = (
    "the graphs were loaded, their C++ kernels were not there: a Mega-cache holds none, and another folder of torch's "
    "or of the compiler's is another command line"
)
_NOT_LOADED = "of programs that are not loaded"
_NO_CACHE = "no cache covers it"
_IN_NO_KEY = ("new_function", "cache_cleared")  # which object it is, and what the process had forgotten
_OTHER_SIZES = "an entry is there under this key, made for other sizes"
_UNSEEN = "what its key is made of was not seen"
_UNSEEN_THEN = "the earlier run loaded it, and does not know what its key is made of: give the run that had stored it"
_ALSO_UNSEEN = "what else its key is made of was not seen"
_NOT_IN_KEY = "not in this key: where the entry can be loaded, the program compiled before is run instead"
_OTHER_CODE = "called as before: its code, or a constant that it holds, is another"
_OTHER_PLACES = (
    "called as before: its code, a constant that it holds, or, since jax_compilation_cache_include_metadata_in_key is "
    "on, a file or a line is another"
)


Entry = tuple[str, str, str | None]
"""What a cache has of a program: the compile's id, the layer, and the part."""


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
    """The parts of a run that are reused, and the others."""

    programs: list[Program]
    again: list[Again]
    second_run: SecondRun
    why: str | None = None
    """Why what asked a cache, and with it what a further process would take, is not known; None where it is."""


def foretold(trace: Trace, process: int = 0, *, lost: Collection[Entry] = ()) -> Reuse:
    """What a process like this one would load if it ran after it, and what it would pay again; without the entries that
    are `lost` to it, where its keys are others."""
    rows = list(asked(trace, process))
    set_late = {row.cache.layer for row in rows if row.cache.state != "off"}
    programs, saved, load = [], Counter[str](), 0
    own = _own_phases(trace, process)
    for row in rows:
        program = _foretold(row, late=row.cache.layer in set_late)
        if (row.compile.id, row.cache.layer, row.cache.part) in lost:
            program = _program(row, None, MISSED)
        covered = _covered(row, own)
        if program.verdict != HIT:
            program.cost_ns = sum(covered.values())
        elif row.cache.state == "hit":
            taken = _taken(covered, row.cache.load_ns or 0)
            load += sum(taken.values())
            saved.update(taken)
        else:  # reading takes about as long as it took to make the key and to store the entry
            load += min(row.cache.self_ns or 0, sum(covered.values()))
            saved.update(covered | _garbage(covered, own[row.compile.id]))
        programs.append(program)
    again, second = _ledger(trace, process, saved, load)
    second.saved_ns += sum(row.cache.saved_ns or 0 for row in rows if row.cache.state == "hit")
    return Reuse(programs, again, second, unseen_route(trace, process))


def compared(earlier: Trace, later: Trace, process: int = 0, other: int = 0) -> Reuse:
    """Program by program: whether the later run loaded it, and what kept it from that. `process` is the earlier's,
    `other` the later's."""
    own = _own_phases(later, other)
    programs = []
    for before, after in pairs(list(asked(earlier, process)), list(asked(later, other))):
        program = _verdict(before, after, earlier, later)
        if after is not None and program.verdict != HIT:
            program.cost_ns = sum(_covered(after, own).values())
        programs.append(program)
    hits = (row for row in asked(later, other) if row.cache.state == "hit")
    loads = added_up(_taken(_covered(row, own), row.cache.load_ns or 0) for row in hits)
    again, second = _ledger(later, other, loads, loads.total())
    second.saved_ns = sum(row.cache.saved_ns or 0 for row in asked(later, other))
    return Reuse(programs, again, second, unseen_route(earlier, process) or unseen_route(later, other))


def missed(earlier: Trace, later: Trace, process: int = 0, other: int = 0) -> list[Program]:
    """What the later run compiled again: programs that the earlier one had asked the same cache for."""
    unasked = (row for row in asked(earlier, process) if row.cache.state in _UNASKED)
    off = {(row.compile.id, row.cache.layer, row.cache.part) for row in unasked}
    return [
        row
        for row in compared(earlier, later, process, other).programs
        if row.verdict in (MISSED, COSMETIC, NOT_WRITTEN)
        or (row.verdict in (OFF, BYPASSED) and row.earlier and (row.earlier, row.layer, row.part) not in off)
    ]


# --- one run ------------------------------------------------------------------------------------------------------


def _foretold(row: Asked, *, late: bool) -> Program:
    cache = row.cache
    if cache.state == "hit" or (cache.written and cache.state in ("miss", "guard_miss", "unreadable")):
        return _program(row, None, HIT)
    if cache.state == "off" and late and cache.why == "disabled" and cache.key:
        return _program(row, None, OFF, why="late", why_text="it was compiled before the cache's directory was set")
    verdict = _UNASKED.get(cache.state, NOT_WRITTEN if cache.written is False else MISSED)
    unseen = "whether it was stored was not seen" if verdict == MISSED else ""
    return _program(row, None, verdict, why=cache.why, why_text=cache.why_text or unseen)


def _program(
    earlier: Asked | None,
    later: Asked | None,
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


def _verdict(before: Asked | None, after: Asked | None, earlier: Trace, later: Trace) -> Program:
    if after is None:
        return _program(before, None, GONE)
    cache = after.cache
    if cache.state == "hit":
        return _program(before, after, HIT)
    if cache.state in _UNASKED:
        return _program(before, after, _UNASKED[cache.state], why=cache.why, why_text=cache.why_text)
    if before is None:
        return _program(None, after, NEW)
    if cache.layer == "inductor.cpp":
        loaded = any(row.layer == GRAPHS and row.state == "hit" for row in after.compile.caches)
        return _program(before, after, MISSED, why_text=_KERNELS_LOST if loaded else "kernels of graphs not loaded")
    same = same_program(before, after)
    signatures = earlier.details[before.compile.id].signature, later.details[after.compile.id].signature
    changes = differences(*signatures) if not same or cache.state == "guard_miss" else []
    changes = [each for each in changes if each.mechanism not in _IN_NO_KEY]
    # what describes the graph follows from all else
    changes = [each for each in changes if each.mechanism not in ("graph", "unknown")] or changes
    if cache.layer == "xla.persistent" and before.compile.function != after.compile.function:
        changes = [Change("function", "new_function", before.compile.function, after.compile.function)]
    seen = [Difference(each.argument or each.mechanism, each.before, each.after) for each in changes]
    if cache.state == "guard_miss":
        return _program(before, after, MISSED, components=seen, why_text=_OTHER_SIZES)
    if cache.state == "unreadable":
        others = not same and before.compile.program is not None and after.compile.program is not None
        if others and seen and before.cache.key == cache.key:
            return _program(before, after, MISSED, components=seen, why_text=_NOT_IN_KEY)
        return _program(before, after, MISSED, why=cache.why, why_text=cache.why_text)
    in_part = not (before.cache.components and cache.components)
    was, now = (_shared_with_inductor(row) if in_part else row.cache.components for row in (before, after))
    options = earlier.details[before.compile.id].options | later.details[after.compile.id].options
    differ = key_differences(was, now, changes, options)
    if differ and before.cache.key != cache.key:
        verdict = COSMETIC if _is_cosmetic(before, after, earlier, later) else MISSED
        words = _ALSO_UNSEEN if in_part else _in_words(before, after, differ)
        return _program(before, after, verdict, components=differ, why_text=words)
    if before.cache.key is None or cache.key is None or before.cache.key != cache.key:
        unseen = _UNSEEN_THEN if before.cache.state == "hit" and cache.components else _UNSEEN
        return _program(before, after, MISSED, components=seen, why_text=_ALSO_UNSEEN if seen else unseen)
    if before.cache.written is False:
        return _program(before, after, NOT_WRITTEN, why=before.cache.why, why_text=before.cache.why_text)
    if before.cache.state == "off":
        return _program(before, after, NOT_WRITTEN, why="disabled", why_text="the cache was off in the earlier run")
    text = "its entry was not there: evicted, or in another directory"
    return _program(before, after, MISSED, why="evicted", why_text=text)


def _shared_with_inductor(row: Asked) -> list[Component]:
    """Of an AOTAutograd key that was not seen, what it has in common with Inductor's of the same compile: all but the
    graph, and what that is called with."""
    if row.cache.layer != WHOLE_LAYER:
        return []
    inductors = next((cache for cache in row.compile.caches if cache.layer == GRAPHS and cache.components), None)
    shared = (each for each in (inductors.components if inductors is not None else ()) if not is_of_program(each.name))
    return [each for each in shared if not each.name.startswith("fx_kwargs")]


def _in_words(before: Asked, after: Asked, differ: list[Difference]) -> str:
    """What is to be said beyond the values."""
    names = {row.name for row in differ}
    if same_program(before, after) and names & {"aot_config", "gm"}:
        return "the same program: what it calls its variables and attributes is part of this key"
    if any(name.endswith(CACHE_FOLDER) for name in names):
        return "the cache's directory is another: it is part of JAX's key"
    if names == {COMPUTATION}:
        with_places = any(component.name == WITH_PLACES for component in after.cache.components)
        return _OTHER_PLACES if with_places else _OTHER_CODE
    return ""


def _is_cosmetic(before: Asked, after: Asked, earlier: Trace, later: Trace) -> bool:
    """Whether only names within the program differ: it computes the same. Said only where both runs kept programs."""
    hashes = [{(row.name, row.hash) for row in each.cache.components} for each in (before, after)]
    if not all(is_of_program(name) for name, _ in hashes[0] ^ hashes[1]):
        return False
    old, new = earlier.details[before.compile.id].programs, later.details[after.compile.id].programs
    if "stablehlo" in old and "stablehlo" in new:
        texts = [renumbered(programs["stablehlo"]) for programs in (old, new)]
        return texts[0] is not None and texts[0] == texts[1]
    return "fx" in old and "fx" in new and same_program(before, after)


# --- time ---------------------------------------------------------------------------------------------------------


def _own_phases(trace: Trace, process: int) -> dict[str, Counter[str]]:
    """Of each compile the time by phase, without that of the compiles nested in it."""
    by_compile: dict[str, Counter[str]] = defaultdict(Counter)
    for row in trace.compiles:
        if row.process != process:
            continue
        for segment in row.segments:
            by_compile[row.id].update(segment.phases)
            if row.parent is not None:
                by_compile[row.parent].subtract(segment.phases)
    return by_compile


def _covered(row: Asked, own: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The time of the phases that an entry would have saved."""
    return {phase: own[row.compile.id].get(phase, 0) for phase in COVERED.get(row.cache.layer, ())}


def _taken(covered: dict[str, int], ns: int) -> Counter[str]:
    """So much of the phases, in their order."""
    taken: Counter[str] = Counter()
    for phase, had in covered.items():
        taken[phase] = min(had, ns)
        ns -= taken[phase]
    return taken


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
    spent.update(imports_as_one(phases))
    cut = {phase: min(max(0, ns), spent[phase]) for phase, ns in saved.items()}
    loadable = {phase for phases in COVERED.values() for phase in phases}
    again = [
        Again(phase, ns, _WHY.get(phase, _NOT_LOADED if phase in loadable else _NO_CACHE))
        for phase, ns in (spent - Counter(cut)).most_common()
    ]
    paid = sum(each.ns for each in again)
    saved_ns = max(0, sum(cut.values()) - load_ns)
    return again, SecondRun(paid + load_ns + unattributed, paid, load_ns, saved_ns, unattributed)
