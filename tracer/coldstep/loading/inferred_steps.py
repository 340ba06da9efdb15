"""Finds the steps of a process that marks none, and puts them where those that are marked would be."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby, repeat
from operator import itemgetter
from typing import cast

from coldstep.analysis.steps.inference import Made, Repeated, Story, choose
from coldstep.candidates import Kind
from coldstep.errors import TraceError
from coldstep.events import NOTHING, Args
from coldstep.loading import folding
from coldstep.loading.row_types import Slice, StepRow
from coldstep.loading.slices import Locations, Rows
from coldstep.model import UNATTRIBUTED, Inference, InferredBy
from coldstep.pftrace import layout
from coldstep.recording.device_tracks import EXECUTE
from coldstep.rows.intervals import Alike, Shape
from coldstep.rows.ledger import Open, Partition
from coldstep.rows.spans import Spans, by_end

_SYNC = InferredBy("sync", "torch_xla.sync", None)


def infer(rows: Rows, locations: Locations, asked: str | None) -> Inference | None:
    """Where a process marks no steps: what its steps are inferred from; they are put among `rows.steps`, and the
    time of their threads into `rows.ledger`. None where it marks them, or was not watched for that.

    Raises TraceError where nothing of the kind `asked` for was seen.
    """
    if rows.is_marked:
        if asked is not None:
            raise TraceError("its steps are marked by the program: --step chooses among those that are inferred")
        return None
    synced: list[StepRow | Alike] = [*rows.steps, *rows.folded]
    for step in synced:
        step.by = _SYNC
    if not rows.candidates and "steps" not in rows.run.collectors and asked is None:
        return None
    candidates = [_repeated(id_, args, locations) for id_, args in rows.candidates.items()]
    try:
        choice = choose(candidates, _made(rows), synced=bool(synced), asked=asked)
    except LookupError as error:
        raise TraceError(str(error.args[0])) from error
    if choice.stories:
        put(rows, choice.stories)
        rows.ledger = ledger_of_owners(rows)
    steps = {row.name: row.by for row in choice.stories or synced if row.by is not None}
    return Inference(
        process=rows.process,
        steps=steps,
        also=choice.also,
        notes=choice.notes,
        why=choice.why if not steps else None,
        ask=None if steps else _to_ask_for(rows, locations),
    )


def _repeated(id_: str, args: Args, locations: Locations) -> Repeated:
    fed = args.get("fed")
    return Repeated(
        id=id_,
        kind=cast(Kind, str(args.get("kind", "call"))),
        function=str(args.get("function", "")),
        name=str(args.get("name") or ""),
        place=locations.read(args.get("location")),
        tid=int(args.get("tid", 0)),
        calls=args["calls"].in_order(),
        gradients=bool(args["gradients"]) if "gradients" in args else None,
        loop=bool(args.get("loop")),
        instance=int(args.get("instance", 0)),
        looked=int(args.get("looked", 0)),
        fed={} if fed in (None, NOTHING) else {str(name): int(calls) for name, calls in fed.items()},
    )


def _made(rows: Rows) -> list[Made]:
    """What compiled, each stretch of it, and where coldstep began or ended a profiler's session."""
    made: list[Made] = []
    origins: dict[str, str] = {}
    for piece in rows.slices:
        if piece.category == layout.COMPILE:
            origin = origins.setdefault(str(piece.args.get("compile")), str(piece.args.get("origin", "user")))
            backward = piece.args.get("part") == "backward"
            made.append(Made(piece.track.tid, piece.start, piece.end, origin == "user", backward))
        elif piece.track.kind == "coldstep" and piece.name == layout.CLOCK:
            made.append(Made(piece.track.tid, piece.start, piece.end, is_users=False, is_backward=False))
    return made


def _to_ask_for(rows: Rows, locations: Locations) -> str | None:
    """The function of the user's that took longest to compile, as --step takes it."""
    compiles = (piece for piece in rows.slices if piece.category == layout.COMPILE)
    users = (piece for piece in compiles if piece.args.get("origin", "user") == "user")
    longest = max(users, key=lambda piece: piece.end - piece.start, default=None)
    return _as_step_takes_it(rows, locations, longest) if longest is not None else None


def _as_step_takes_it(rows: Rows, locations: Locations, compile: Slice) -> str | None:
    """A compile's function, where `coldstep run --step` takes it: no local function, and none that others call, too."""
    place, function = locations.read(compile.args.get("location")), str(compile.args.get("function", ""))
    is_local = "<locals>" in str(compile.args.get("key"))
    if place is None or is_local or "-packages/" in place.file:
        return None
    script = next((word for word in rows.run.command if word.endswith(".py")), "")
    is_script = place.file.rpartition("/")[2] == script.rpartition("/")[2]
    module = str(compile.args.get("module") or ("__main__" if is_script else ""))
    return f"{module}:{function}" if all(map(str.isidentifier, [*module.split("."), *function.split(".")])) else None


# --- the ledger of a process in which other threads than the one that entered the tra --------------------------------


Ledger = list[tuple[int, bool, str]]


def ledger_of_owners(rows: Rows) -> Ledger:
    """`rows.ledger`, with the time of each step as the thread that ran it spent it: while the program ran, nobody knew
    that it was a step. Device time within unattributed time is as it was."""
    elsewhere = [step for step in rows.steps if _tid(step, rows) != rows.run.tid]
    if not elsewhere:
        return rows.ledger
    before = [(ns, phase) for ns, _, phase in sorted(rows.ledger, key=itemgetter(0, 1))]
    anew = _replayed(rows, elsewhere)
    times = {ns for ns, _ in [*before, *anew]} | {ns for step in elsewhere for ns in (step.start, step.end)}
    steps = sorted((step.start, step.end) for step in elsewhere)
    ledger: Ledger = []
    for ns in sorted(times):
        phase = _at(before, ns)
        at = bisect_right(steps, (ns, rows.stop)) - 1
        if at >= 0 and ns < steps[at][1] and ((own := _at(anew, ns)) != UNATTRIBUTED or phase != EXECUTE):
            phase = own
        ledger.append((ns, True, phase))
    return ledger


def _replayed(rows: Rows, steps: Sequence[StepRow]) -> list[tuple[int, str]]:
    """What the partition would have said, had these steps been marked."""
    changes: list[tuple[int, str]] = []
    partition = Partition(rows.start, rows.run.tid, lambda ns, phase: changes.append((ns, phase)), rows.vocabulary)
    pieces = [piece for piece in rows.slices if piece.is_phase and piece.start < piece.end]
    # at one time: what ends before what begins, the innermost of it first
    turns: list[tuple[int, int, int, Slice | StepRow]] = []
    for piece in pieces:
        turns += [(piece.start, 2, -piece.end, piece), (piece.end, 0, -piece.start, piece)]
    for step in steps:
        turns += [(step.start, 1, 1, step), (step.end, 1, 0, step)]
    open_: dict[int, Open] = {}
    for ns, _, begins, what in sorted(turns, key=lambda turn: turn[:3]):
        if isinstance(what, StepRow):
            partition.cut(ns, _tid(what, rows) if begins else None)
        elif id(what) in open_:
            partition.end(ns, what.track.tid, open_.pop(id(what)))
        else:
            open_[id(what)] = partition.begin(ns, what.track.tid, what.category)
    return changes


def _at(ledger: Sequence[tuple[int, str]], ns: int) -> str:
    """The phase of that time: of several that begin then, the last."""
    at = bisect_right(ledger, ns, key=lambda row: row[0]) - 1
    return ledger[at][1] if at >= 0 else UNATTRIBUTED


def _tid(step: StepRow, rows: Rows) -> int:
    return int(step.args.get("tid", rows.run.tid))


# --- puts together the inferred steps of a process in which nothing was seen but thei --------------------------------


_FEWEST = 2  # that are put together
_SAID = {"source": "inferred", "measures": "dispatch"}


def put(rows: Rows, stories: list[Story]) -> None:
    """Make the steps of these stories those of the process, in place of those that it had."""
    rows.unfold(rows.folded)
    steps = by_end([story.steps for story in stories])
    if not _may_be_together(rows, stories, steps):
        rows.steps = [_row(story, n, *span) for story in stories for n, span in enumerate(story.steps)]
        return
    rows.steps = []
    ledger = _ledger(rows)
    busy, whose = _busy(rows, ledger, steps.ends), _whose(stories)
    for number in range(len(stories)):
        busy[whose.index(number)] = True  # a first step is like no other
    runs: list[Alike] = []
    at, placed = 0, [0] * len(stories)
    for (is_busy, number), alike in groupby(zip(busy, whose, strict=True)):
        size, first, story = sum(1 for _ in alike), placed[number], stories[number]
        begins, ends = steps.begins[at : at + size], steps.ends[at : at + size]
        if is_busy or size < _FEWEST:
            rows.steps += map(_row, repeat(story, size), range(first, first + size), begins, ends)
        else:
            start = steps.ends[at - 1]
            phase = ledger[bisect_right(ledger, start, key=itemgetter(0)) - 1][2]
            shape = Shape(story.name, _SAID, 0, (phase, phase), ())
            runs.append(Alike(shape, rows.process, first, start, [begins, ends], by=story.by))
        placed[number] += size
        at += size
    rows.fold(runs)


def _may_be_together(rows: Rows, stories: list[Story], steps: Spans) -> bool:
    """Whether they are many, and all of the thread whose time the ledger is."""
    if rows.samples or len(steps) < max(1, folding.FEW_STEPS) or any(story.tid != rows.run.tid for story in stories):
        return False
    return rows.start <= steps.begins[0] and steps.ends[-1] <= rows.stop


def _ledger(rows: Rows) -> list[tuple[int, bool, str]]:
    """What is told of the time, in its order, from the trace's start on."""
    changes = [(rows.start, False, UNATTRIBUTED), *rows.ledger]
    if rows.ledger_end is not None:
        changes.append((rows.ledger_end, False, UNATTRIBUTED))
    return sorted(changes, key=itemgetter(0, 1))


def _busy(rows: Rows, ledger: list[tuple[int, bool, str]], ends: array[int]) -> bytearray:
    """For each step whether anything was seen in it, or since the one before: another phase of its thread, work of
    any."""
    busy = bytearray(len(ends))
    for begin, end in _seen(rows, ledger):
        first, last = bisect_left(ends, begin), bisect_right(ends, end) + 1
        busy[first:last] = b"\x01" * len(busy[first:last])
    return busy


def _seen(rows: Rows, ledger: list[tuple[int, bool, str]]) -> Iterator[tuple[int, int]]:
    yield from ((ns, ns) for ns, _, _ in ledger)
    yield from ((piece.start, piece.end) for piece in rows.slices if piece.is_phase or piece.category == layout.COMPILE)


def _whose(stories: list[Story]) -> array[int]:
    """Of each step, in the order of their ends, which story it is of."""
    if len(stories) == 1:
        return array("l", bytes(len(stories[0].steps) * array("l").itemsize))
    ends = (zip(story.steps.ends, repeat(number)) for number, story in enumerate(stories))
    return array("l", map(itemgetter(1), merge(*ends)))


def _row(story: Story, n: int, begin: int, end: int) -> StepRow:
    return StepRow(story.name, n, begin, end, {**_SAID, "tid": story.tid}, story.by)
