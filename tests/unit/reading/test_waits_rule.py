"""The rule by which looks at a thread become waits, on looks that are made up."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstep.job.waits import LEAST_NS, Looks, Member, Wait, summed, waits_in, whom
from coldstep.model import Waiting, WaitingHow

S = 1_000_000_000
OWN = Member(0, 100, 0, 100 * S, [], [])
NAMES = {400: [(-5 * S, 50 * S, "sh"), (60 * S, 70 * S, "later")]}


def looks(start: float, end: float, how: WaitingHow = "recv", where: str = "Connection.recv", pid: int = 0) -> Looks:
    return Looks(round(start * S), round(end * S), how, where, pid or None)


def found(start: float, end: float, *seen: Looks) -> list[tuple[str, float]]:
    return [(row.where, row.ns / S) for row in waits_in(round(start * S), round(end * S), seen)]


def a_wait(end: float, pid: int | None = None, cpu: dict[int, float] | None = None) -> Wait:
    how: WaitingHow = "recv" if pid is None else "wait4"
    used = Counter({each: round(seconds * S) for each, seconds in (cpu or {}).items()})
    return Wait([(0, round(end * S))], how, "Connection.recv", pid, used)


def member(index: int, pid: int, above: list[int], *phases: tuple[float, float, str]) -> Member:
    return Member(index, pid, 0, 100 * S, above, [(round(a * S), round(b * S), name) for a, b, name in phases])


def told(rows: list[Waiting]) -> list[tuple[int | None, str | None, float, int]]:
    return [(row.process, row.meanwhile, row.ns / S, row.working) for row in rows]


# --- which waits a stretch has ------------------------------------------------------------------------------------


def test_most_looks_decide() -> None:
    assert found(0, 10, looks(0, 10)) == [("Connection.recv", 10)]
    assert found(0, 0.9, looks(0, 0.2), looks(0.2, 0.9, "poll", "poll")) == [("poll", 0.7)]
    assert found(0, 2, looks(0.5, 1.4)) == [("Connection.recv", 0.9)], "less than half, and yet no chance"
    assert found(0, 2, looks(0.5, 0.7)) == [], "it worked for more than half of the time"
    assert found(0, 10) == []
    two = looks(0, 0.6, "wait4", "Process.join", 1), looks(0.6, 1.2, "wait4", "Process.join", 2)
    assert found(0, 1.2, *two) == [("Process.join", 0.6)] * 2, "it only waited, though for no process most of the time"


def test_a_look_that_reaches_beyond_the_next_one_counts_up_to_it() -> None:
    assert found(0, 0.8, looks(0, 0.45), looks(0.4, 0.8)) == [("Connection.recv", 0.8)]
    assert found(0, 1, looks(0, 0.7), looks(0.5, 1, "poll", "poll")) == [("Connection.recv", 0.5), ("poll", 0.5)]


def test_a_short_stretch_has_none() -> None:
    assert found(0, 0.2, looks(0, 0.2)) == []


def test_looks_that_agree_for_a_second_are_a_stretch_by_themselves() -> None:
    seen = looks(0, 3), looks(5, 8, "wait4", "Popen.wait", 7)
    assert found(0, 20, *seen) == [("Connection.recv", 3), ("Popen.wait", 3)]


def test_a_look_counts_only_inside_of_its_stretch() -> None:
    assert found(2, 3, looks(0, 10)) == [("Connection.recv", 1)]
    assert found(2, 3, looks(0, 1.9), looks(3.1, 9)) == []


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abc")), max_size=12), st.integers(0, 30))
def test_no_time_is_waited_twice(pieces: list[tuple[int, str]], start: int) -> None:
    """Whatever was seen, the waits of a stretch lie in it, do not overlap, and are of what was seen there."""
    at, seen = 0, []
    for tenths, where in pieces:
        seen.append(looks(at / 10, (at + tenths) / 10, where=where))
        at += tenths
    end = start + 40
    waits = list(waits_in(start * S // 10, end * S // 10, seen))
    spans = sorted(span for wait in waits for span in wait.spans)
    assert all(a <= b for (_, a), (b, _) in pairwise(spans))
    assert all(start * S // 10 <= a <= b <= end * S // 10 for a, b in spans)
    assert {wait.where for wait in waits} <= {row.where for row in seen}
    assert all(2 * wait.ns >= LEAST_NS for wait in waits)


# --- whom it was for ----------------------------------------------------------------------------------------------


def test_overlap_alone_is_no_wait_for_a_process() -> None:
    """A process that worked meanwhile is named so; one that did not, is not named at all."""
    busy, idle = member(1, 200, [100], (0, 4, "xla.compile"), (4, 6, "import.jax")), member(2, 300, [100])
    assert told(whom(a_wait(10), OWN, [OWN, busy, idle], {})) == [
        (1, "xla.compile", 4, 1), (1, "imports", 2, 1), (1, None, 4, 1)
    ]  # fmt: skip
    assert told(whom(a_wait(10), OWN, [OWN, idle], {})) == [(None, None, 10, 0)]


def test_of_two_that_worked_none_is_named() -> None:
    two = [member(1, 200, [100], (0, 4, "xla.compile")), member(2, 300, [200, 100], (5, 9, "dynamo.trace"))]
    assert told(whom(a_wait(10), OWN, [OWN, *two], {})) == [(None, None, 10, 2)]
    assert told(whom(a_wait(10, cpu={200: 3, 400: 3}), OWN, [OWN, two[0]], NAMES)) == [(None, None, 10, 2)]


def test_a_process_without_a_trace_worked_where_it_used_a_processor() -> None:
    [row] = whom(a_wait(10, cpu={400: 1.1, 500: 0.9}), OWN, [OWN], NAMES)
    assert (row.process, row.pid, row.command, row.working) == (None, 400, "sh", 1)


def test_one_that_is_not_below_did_not_work_for_it() -> None:
    stranger = member(1, 200, [999], (0, 10, "xla.compile"))
    assert told(whom(a_wait(10), OWN, [OWN, stranger], {})) == [(None, None, 10, 0)]


def test_a_moment_is_no_work() -> None:
    assert told(whom(a_wait(10), OWN, [OWN, member(1, 200, [100], (0, 0.9, "gc"))], {})) == [(None, None, 10, 0)]


def test_the_kernel_has_the_process_that_it_waits_for() -> None:
    others = [member(1, 200, [100], (0, 6, "xla.compile")), member(2, 300, [100], (0, 9, "dynamo.trace"))]
    assert told(whom(a_wait(10, pid=200), OWN, [OWN, *others], {})) == [(1, "xla.compile", 6, 0), (1, None, 4, 0)]
    [row] = whom(a_wait(10, pid=400), OWN, [OWN, *others], NAMES)
    assert (row.process, row.pid, row.command) == (None, 400, "sh")


def test_the_gap_of_that_process_is_asked_of_those_below_it() -> None:
    engine = member(1, 200, [100], (0, 3, "import.jax"))
    worker = member(2, 300, [200, 100], (2, 3, "xla.compile"), (4, 8, "xla.compile"))
    assert told(whom(a_wait(10, pid=200), OWN, [OWN, engine, worker], {})) == [
        (1, "xla.compile", 4, 0), (1, "imports", 3, 0), (1, None, 3, 0)
    ]  # fmt: skip
    second = member(3, 301, [200, 100], (5, 9, "dynamo.trace"))
    assert told(whom(a_wait(10, pid=200), OWN, [OWN, engine, worker, second], {})) == [
        (1, "imports", 3, 0), (1, None, 7, 0)
    ]  # fmt: skip


def test_one_below_that_computes_without_a_phase_leaves_the_gap_unnamed() -> None:
    below = [member(1, 200, [100]), member(2, 300, [200, 100], (2, 8, "xla.compile")), member(3, 301, [200, 100])]
    assert told(whom(a_wait(10, pid=200, cpu={301: 5}), OWN, [OWN, *below], {})) == [(1, None, 10, 0)]


def test_what_the_target_computes_itself_is_nobody_elses_phase() -> None:
    engine = member(1, 200, [100], (0, 3, "import.jax"))
    below = member(2, 300, [200, 100], (4, 8, "xla.compile"))
    waits = a_wait(10, pid=200, cpu={200: 9})
    assert told(whom(waits, OWN, [OWN, engine, below], {})) == [(1, "imports", 3, 0), (1, None, 7, 0)]
    shell = a_wait(10, pid=400, cpu={301: 5})  # of another child of its, without a trace
    assert told(whom(shell, OWN, [OWN, member(1, 300, [400, 100], (0, 8, "xla.compile"))], NAMES)) == [
        (None, None, 10, 0)
    ]


def test_a_shell_without_a_trace_has_what_the_one_below_it_did() -> None:
    below = member(1, 300, [400, 100], (0, 8, "xla.compile"))
    rows = whom(a_wait(10, pid=400), OWN, [OWN, below], NAMES)
    assert told(rows) == [(None, "xla.compile", 8, 0), (None, None, 2, 0)]
    assert {(row.pid, row.command) for row in rows} == {(400, "sh")}


def test_a_number_that_another_process_had_before_is_the_later_ones() -> None:
    earlier, later = (Member(index, 200, at * S, (at + 6) * S, [100], []) for index, at in ((1, -2), (2, 3)))
    assert whom(a_wait(10, pid=200), OWN, [OWN, earlier, later], {})[0].process == 2


def test_equal_waits_are_one_row() -> None:
    rows = [Waiting(1, 2, "recv", "gc", "a"), Waiting(1, 5, "recv", None, "a"), Waiting(1, 4, "recv", "gc", "a")]
    assert [(row.ns, row.meanwhile) for row in summed(rows)] == [(6, "gc"), (5, None)]


@pytest.mark.parametrize("pid", [None, 200])
def test_the_rows_of_a_wait_add_up_to_it(pid: int | None) -> None:
    busy = member(1, 200, [100], (0, 7, "xla.compile"), (7, 20, "dynamo.trace"))
    assert sum(row.ns for row in whom(a_wait(10, pid=pid), OWN, [OWN, busy], {})) == 10 * S
