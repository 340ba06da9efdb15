"""Which of what a program does again and again are its steps, where it marks none.

The most trusted kind that was seen decides: marks of another tool, the trainer that runs the loop, torch_xla's syncs,
optimizers, calls that train, other calls in a loop. What the program does beside them (evaluation, sampling) has a
name of its own, and lies in no step.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain, islice, pairwise, repeat
from operator import eq, lt

from coldstep._util.figures import count
from coldstep._util.gathered import summed
from coldstep._util.slotted import field, slotted
from coldstep.candidates import Kind
from coldstep.model import InferredBy, Location, StepRule
from coldstep.rows.spans import Span, Spans, by_end, ends_of

_FEWEST_STEPS = 2  # of an optimizer
_FEWEST_CALLS = 3  # of a compiled function
_FED_BACK = 0.75  # the share of calls that take what the one before returned, where a function keeps its state
_IN_RHYTHM = 0.9  # the share of gaps that must hold a call of the other one


@slotted
class Repeated:
    """A candidate as a trace holds it (`coldstep.candidates`), with its calls in the order of their ends. Of one
    whose begin was not seen, it is the end, too."""

    id: str
    kind: Kind
    function: str
    name: str
    place: Location | None
    tid: int
    calls: Spans
    gradients: bool | None = None
    loop: bool = False
    instance: int = 0
    looked: int = 0
    fed: dict[str, int] = field(default_factory=dict)

    @property
    def ends(self) -> array[int]:
        """When its calls ended."""
        return self.calls.ends

    def feeds(self, other: Repeated) -> bool:
        """Whether its results go into calls of another one again and again."""
        return other.fed.get(self.id, 0) >= min(2, other.looked or 1)


@dataclass(frozen=True, slots=True)
class Made:
    """A stretch of a compile, or of what else is no part of a step: coldstep's own work."""

    tid: int
    start: int
    end: int
    is_users: bool
    """Whether it is of the user's own function, and no eager operation's."""
    is_backward: bool


@slotted
class Story:
    """A kind of step, and when its steps began and ended."""

    name: str
    by: InferredBy
    tid: int
    steps: Spans


@slotted
class Choice:
    """The kinds of steps; what else was seen more than once, and how often; what a reader must know of the choice, and
    why there is none."""

    stories: list[Story] = field(default_factory=list)
    also: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    why: str | None = None


def choose(candidates: Iterable[Repeated], made: Sequence[Made], *, synced: bool, asked: str | None = None) -> Choice:
    """The steps of a process, of all that may be; `synced` where torch_xla's syncs have cut it into steps already.

    `asked` is what a reader takes for a step: a function, a line ("train.py:41"), a kind of candidate, a name. Raises
    LookupError where nothing of the kind was seen.
    """
    rows = _prepared(candidates, made)
    if asked is not None:
        return _asked(rows, made, asked)
    for kind in ("other_tool", "trainer"):
        if chosen := [row for row in rows if row.kind == kind]:
            return _told(chosen, rows, made)
    if synced:
        return Choice(also=_also([row for row in rows if row.kind == "call" and row.gradients is False]))
    optimizers = [row for row in rows if row.kind == "optimizer" and len(row.calls) >= _FEWEST_STEPS]
    if optimizers:
        return _grouped(_by_rhythm(optimizers, _follows), "optimizer", rows, made)
    calls = [row for row in rows if row.kind == "call" and len(row.calls) >= _FEWEST_CALLS]
    trains = any(row.is_backward for row in made) or any(row.kind == "optimizer" for row in rows)
    if learning := [row for row in calls if _learns(row, rows, trains=trains)]:
        if once := _of_one_step(learning, rows):
            return _grouped(_by_rhythm(once, _follows), "optimizer", rows, made)
        return _grouped(_by_rhythm(learning, _alternates), "feedback", rows, made)
    if looping := [row for row in calls if row.loop]:
        return _grouped(_by_rhythm(looping, _alternates), "call", rows, made)
    return Choice(also=_also(rows), why=_why_none(rows))


# --- what was seen ------------------------------------------------------------------------------------------------


def _prepared(candidates: Iterable[Repeated], made: Sequence[Made]) -> list[Repeated]:
    """The candidates with calls of their own: objects that follow each other at one place are one, calls within calls
    of another are left out, and a call that compiled begins where that began."""
    rows = [row for row in _merged(candidates) if row.calls]
    _complete(rows, made)
    return [row for row in rows if row.kind != "call" or not any(_lies_in(row, other) for other in rows)]


def _merged(candidates: Iterable[Repeated]) -> list[Repeated]:
    """One row for objects that one line calls one after the other: an optimizer that is made anew each epoch."""
    merged: dict[tuple[object, ...], list[Repeated]] = {}
    for row in sorted((row for row in candidates if row.calls), key=lambda row: row.calls[0][1]):
        place = (row.place.file, row.place.line) if row.place is not None else row.id
        same = merged.setdefault((row.kind, row.function, row.name, row.gradients, row.tid, place), [])
        last = next((each for each in same if each.calls[-1][1] <= row.calls[0][0]), None)
        if last is None:
            same.append(row)
        else:
            last.calls.extend(row.calls)
            last.looked, last.fed = max(last.looked, row.looked), last.fed | row.fed
    return [row for rows in merged.values() for row in rows]


def _complete(rows: list[Repeated], made: Sequence[Made]) -> None:
    """Of a call of which only the end was seen: where it compiled, it began no later than that."""
    for tid in {row.tid for row in rows}:
        calls_of_thread = [row.calls for row in rows if row.tid == tid]
        ends = ends_of(calls_of_thread)
        for start in sorted(each.start for each in made if each.tid == tid and each.is_users):
            first = bisect_right(ends, start)
            for calls in calls_of_thread if first < len(ends) else ():
                end = ends[first]
                for at in range(bisect_left(calls.ends, end), bisect_right(calls.ends, end)):
                    if calls.begins[at] == end:  # no earlier start was its own
                        calls.begins[at] = start


def _lies_in(row: Repeated, other: Repeated) -> bool:
    """Whether most of its calls are within calls of another compiled function."""
    if row is other or other.kind != "call" or row.tid != other.tid:
        return False
    begins, ends = other.calls.begins, other.ends
    if all(map(eq, begins, ends)):
        return False
    inside = 0
    for begin, end in row.calls:
        at = bisect_left(ends, end)
        inside += at < len(ends) and begins[at] < begin and end < ends[at]
    return inside * 2 > len(row.calls)


def _learns(row: Repeated, rows: list[Repeated], *, trains: bool) -> bool:
    """Whether its calls train something: they compute gradients, themselves or by what goes into them."""
    if not row.looked:
        return bool(row.gradients) and trains
    is_fed_back = row.fed.get(row.id, 0) >= _FED_BACK * (row.looked - 1)
    if row.gradients:
        return row.loop or is_fed_back
    return is_fed_back and any(other.gradients and other.feeds(row) for other in rows)


def _of_one_step(learning: list[Repeated], rows: list[Repeated]) -> list[Repeated]:
    """The optimizers that stepped once, after all of these calls: layers of one step, each compiled by itself."""
    ended = max(row.calls[-1][1] for row in learning)
    optimizers = [row for row in rows if row.kind == "optimizer" and len(row.calls) == 1]
    return [row for row in optimizers if row.calls[0][1] >= ended]


def _why_none(rows: list[Repeated]) -> str:
    calls = [row for row in rows if row.kind == "call"]
    if not calls:
        return "no call of a compiled function, no step of an optimizer, no trainer was seen"
    most = max(calls, key=lambda row: len(row.calls))
    if len(most.calls) < _FEWEST_CALLS:
        return f"{most.function} was called {count(len(most.calls), 'time')}: no loop can be seen in that"
    return f"{most.function} was called {count(len(most.calls), 'time')}, but no loop of the program's own calls it"


# --- what goes together -------------------------------------------------------------------------------------------


def _by_rhythm(rows: list[Repeated], together: Callable[[Repeated, Repeated], bool]) -> list[list[Repeated]]:
    """The rows in groups, each of one loop: a generator's and a discriminator's optimizer."""
    groups: list[list[Repeated]] = []
    for row in sorted(rows, key=lambda row: row.calls[0][1]):
        group = next((group for group in groups if group[0].tid == row.tid and together(group[0], row)), None)
        if group is None:
            groups.append([row])
        else:
            group.append(row)
    return groups


def _follows(one: Repeated, other: Repeated) -> bool:
    """Whether calls of one come again and again between calls of the other: A A A B A A A B."""
    return _share(one, other) >= _IN_RHYTHM or _share(other, one) >= _IN_RHYTHM


def _alternates(one: Repeated, other: Repeated) -> bool:
    """Whether the two take turns: A B A B."""
    return _share(one, other) >= _IN_RHYTHM and _share(other, one) >= _IN_RHYTHM


def _share(one: Repeated, other: Repeated) -> float:
    """Of the gaps between two calls of one, the share in which the other was called."""
    ends, others = one.ends, other.ends
    if len(ends) < 2:
        return 0.0
    positions = (bisect_right(others, end) for end in ends)
    held = sum(after > before for before, after in pairwise(positions))
    return held / (len(ends) - 1)


def _last(group: list[Repeated], choice: Choice) -> Repeated:
    """The one whose calls end the steps: the rarest, and of several the last in the cycle."""
    fewest = min(len(row.calls) for row in group)
    if fewest < _FEWEST_CALLS < max(len(row.calls) for row in group):
        row = max(group, key=lambda row: len(row.calls))
        choice.notes.append(f"{row.function} ends a step: what follows it was seen {count(fewest, 'time')} only")
        return row
    return max((row for row in group if len(row.calls) <= fewest + 1), key=lambda row: row.calls[0][1])


# --- when the steps were ------------------------------------------------------------------------------------------


def _told(chosen: list[Repeated], rows: list[Repeated], made: Sequence[Made]) -> Choice:
    """Another tool, or a trainer, says itself when each of its steps begins and ends."""
    choice = Choice()
    rest = [row for row in rows if row not in chosen]
    for row in chosen:
        ends_only = all(map(eq, row.calls.begins, row.calls.ends))
        steps = _cut(row, _members(row, rest), [], made) if ends_only else _worked(row, rest, made)
        rule: StepRule = "trainer" if row.kind == "trainer" else "other_tool"
        choice.stories.append(_story(row, row.name or "step", rule, steps))
    return _finished(choice, chosen, rest, made)


def _worked(chosen: Repeated, rest: list[Repeated], made: Sequence[Made]) -> Spans:
    """Its blocks but those in which a loop only looks for data, and nothing is called or compiled: one behind the last
    step, where there is no more, and any before the first, where a run that resumes skips what it has trained on."""
    calls = [row.calls for row in rest if row.kind in ("call", "optimizer") and row.tid == chosen.tid]
    ends = sorted(chain(ends_of(calls), (each.end for each in made if each.tid == chosen.tid)))
    worked = [bisect_left(ends, begin) < bisect_right(ends, end) for begin, end in chosen.calls]
    steps, first = sum(worked), worked.index(True) if any(worked) else 0
    is_known = steps >= _FEWEST_STEPS and all(worked[first : first + steps]) and len(worked) <= first + steps + 1
    return Spans(islice(chosen.calls, first, first + steps)) if is_known else chosen.calls


def _grouped(groups: list[list[Repeated]], rule: StepRule, rows: list[Repeated], made: Sequence[Made]) -> Choice:
    """A kind of step of each group: from the end of one of its last calls to the end of the next. `rows` are all that
    may be a part of it, or lie between."""
    choice = Choice()
    used: list[Repeated] = []
    for group in groups:
        last = _last(group, choice)
        members = [*(row for row in group if row is not last), *_members(last, rows)]
        others = [each for other in groups if other is not group for each in other]
        members = [row for row in members if row not in others]
        foreign = [row for row in rows if row.kind != "setup" and row is not last and row not in members]
        name = f"call of {last.function}" if rule == "call" else "step"
        whole = _with_backward(last, made) if rule == "feedback" else last
        choice.stories.append(_story(last, name, rule, _cut(whole, members, foreign, made)))
        used += [last, *members]
    return _finished(choice, used, [row for row in rows if row not in used], made)


def _asked(rows: list[Repeated], made: Sequence[Made], asked: str) -> Choice:
    matching = [row for row in rows if row.kind != "setup" and _is_asked(row, asked)]
    if not matching:
        seen = ", ".join(dict.fromkeys(_words(row) for row in rows if row.kind != "setup"))
        seen = seen or "nothing that is called again and again"
        raise LookupError(f"nothing that {asked!r} names was seen in it; seen: {seen}")
    if matching[0].kind in ("other_tool", "trainer"):
        return _told(matching, rows, made)
    rule: StepRule = "optimizer" if matching[0].kind == "optimizer" else "feedback" if matching[0].gradients else "call"
    if rule == "call":  # what it computes with is no part of it
        for row in matching:
            row.fed = {}
    return _grouped(_by_rhythm(matching, _follows), rule, rows, made)


def _is_asked(row: Repeated, asked: str) -> bool:
    lines = [f"{file}:{row.place.line}" for file in (row.place.file, _base(row.place))] if row.place is not None else []
    return asked in (row.kind, row.function, row.function.rpartition(".")[2], row.name, *lines)


def _members(last: Repeated, rows: list[Repeated]) -> list[Repeated]:
    """What else a step of it is made of: what computes for it, by what goes into it, or, in PyTorch, where gradients
    are computed, or by turns with it."""
    members: list[Repeated] = []
    rest = [row for row in rows if row is not last and row.kind == "call" and row.tid == last.tid]
    for row in rest:
        is_followed = row.looked or last.looked
        if row.feeds(last) if is_followed else row.gradients or _share(last, row) >= _IN_RHYTHM:
            members.append(row)
    while more := [row for row in rest if row not in members and any(row.feeds(each) for each in members)]:
        members += more
    return members or _setup(last, rows)


def _setup(last: Repeated, rows: list[Repeated]) -> list[Repeated]:
    """Of an eager model nothing is seen before its optimizer steps: the first step begins where the last optimizer was
    made."""
    setups = [row for row in rows if row.kind == "setup" and row.tid == last.tid]
    made = [call for row in setups for call in row.calls if call[1] <= last.calls[0][0]]
    return [replace(setups[0], calls=Spans([max(made)]))] if made and last.kind == "optimizer" else []


def _with_backward(row: Repeated, made: Sequence[Made]) -> Repeated:
    """Its calls, each up to the end of its own backward's compile: that comes after it, and before the next call."""
    calls, ends = Spans(row.calls), row.ends
    for each in made:
        at = bisect_right(ends, each.start) - 1
        if each.is_backward and at >= 0 and (at + 1 == len(calls) or each.end <= calls.begins[at + 1]):
            calls.ends[at] = max(calls.ends[at], each.end)
    return replace(row, calls=calls)


def _cut(last: Repeated, members: list[Repeated], foreign: list[Repeated], made: Sequence[Made]) -> Spans:
    """From the end of what was done before, which is the step before, a foreign call, or a compile of none of ours, to
    the end of each of its calls; the first from its begin, or from what of it came before."""
    own = by_end([last.calls, *(row.calls for row in members)])
    called = ends_of([row.calls for row in foreign if row.tid == last.tid])
    compiled = sorted(each.end for each in made if each.tid == last.tid and not each.is_users)
    others = array("q", merge(called, compiled))
    plain = not members and last.calls.rise
    steps = Spans()
    for at, (begin, end) in enumerate(last.calls):
        if steps and plain:
            if (rest := _adjoining(last.calls, at, others)) is not None:
                steps.extend(rest)
                break
            plain = False
        before = steps.ends[-1] if steps else _before(called, begin)
        parts = own.begins[bisect_right(own.ends, before) : bisect_right(own.ends, end)]
        first = min((each for each in parts if each >= before), default=begin)
        start = max(before, _before(others, first)) if steps else first
        if start < end:
            steps.append((start, end))
    return steps


def _adjoining(calls: Spans, at: int, others: Sequence[int]) -> Spans | None:
    """From call `at` on: each step up to the end of a call, from the end of the one before or the last of the other
    times until it began. None where one would have no length."""
    starts = calls.ends[at - 1 : -1]
    for ns in others:
        first = bisect_left(calls.begins, ns, at) - at
        if first < len(starts):
            starts[first] = max(starts[first], ns)
    spans = Spans()
    spans.begins, spans.ends = starts, calls.ends[at:]
    return spans if all(map(lt, spans.begins, spans.ends)) else None


def _before(times: Sequence[int], ns: int) -> int:
    """The last of these times that is no later; 0 where there is none."""
    at = bisect_right(times, ns)
    return times[at - 1] if at else 0


# --- all of it ----------------------------------------------------------------------------------------------------


def _finished(choice: Choice, used: list[Repeated], rest: list[Repeated], made: Sequence[Made]) -> Choice:
    """With what lies between the steps: what is called in a loop has steps of another name, the rest is named."""
    taken = _Taken(choice.stories)
    outside = [row for row in rest if not taken.holds_most(row)]
    for row in list(outside):
        if row.kind != "call" or not row.loop or len(row.calls) < _FEWEST_CALLS:
            continue
        foreign = [each for each in [*used, *rest] if each is not row]
        steps = Spans(step for step in _cut(row, [], foreign, made) if taken.is_free(step))
        if len(steps) >= _FEWEST_CALLS:
            choice.stories.append(_story(row, f"call of {row.function}", "call", steps))
            outside.remove(row)
    _name_apart(choice.stories)
    _disjoint(choice.stories)
    choice.stories = [story for story in choice.stories if story.steps]
    choice.also = _also(outside)
    return choice


class _Taken:
    """The steps that there are already."""

    def __init__(self, stories: list[Story]) -> None:
        self._steps = _in_order([story.steps for story in stories])

    def holds_most(self, row: Repeated) -> bool:
        """Whether most calls of a candidate end within them."""
        return sum(not self.is_free((end - 1, end)) for end in row.ends) * 2 > len(row.calls)

    def is_free(self, step: Span) -> bool:
        """Whether a stretch of time has none of them in it."""
        start, end = step
        at = bisect_left(self._steps.begins, end)
        return at == 0 or self._steps.ends[at - 1] <= start


def _in_order(several: list[Spans]) -> Spans:
    """All of them in the order of their begins."""
    if all(spans.rise for spans in several):
        return several[0] if len(several) == 1 else Spans(merge(*several))
    return Spans(sorted(chain.from_iterable(several)))


def _story(row: Repeated, name: str, rule: StepRule, steps: Spans) -> Story:
    return Story(name, InferredBy(rule, row.function, row.place), row.tid, steps)


def _name_apart(stories: list[Story]) -> None:
    """Two loops at two places are two stories, whatever is called in them."""
    names = [story.name for story in stories]
    for story, name in zip(stories, names, strict=True):
        if names.count(name) > 1 and (place := story.by.location) is not None:
            story.name = f"{name} at {_base(place)}:{place.line}"
    seen: dict[str, int] = {}
    for story in stories:
        seen[story.name] = number = seen.get(story.name, 0) + 1
        if number > 1:
            story.name = f"{story.name} ({number})"


def _disjoint(stories: list[Story]) -> None:
    """Of two steps that overlap, the one that ends later begins where the other one ends."""
    all_ = [zip(story.steps.ends, story.steps.begins, repeat(at)) for at, story in enumerate(stories)]
    steps = merge(*all_) if all(story.steps.rise for story in stories) else sorted(chain.from_iterable(all_))
    for story in stories:
        story.steps = Spans()
    before = 0
    for end, start, at in steps:
        if (start := max(start, before)) < end:
            stories[at].steps.append((start, end))
            before = end


def _also(rows: list[Repeated]) -> dict[str, int]:
    """In words, what was seen more than once and is no step."""
    return summed((_words(row), len(row.calls)) for row in rows if len(row.calls) > 1 and row.kind != "setup")


def _words(row: Repeated) -> str:
    where = f" at {_base(row.place)}:{row.place.line}" if row.place is not None else ""
    return f"{row.name or row.function}{where}"


def _base(place: Location) -> str:
    return place.file.rpartition("/")[2]
