"""The ledger of time against a slow, obvious one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coldstep.model import UNATTRIBUTED
from coldstep.rows.ledger import Open, Partition

HOME, OTHER, THIRD = 1, 2, 3
PHASES = ("jax.trace", "xla.compile", "import.torch", "execute", "inductor.cpp", "autotune", "gc")
COMPILE = ("jax.trace", "xla.compile", "inductor.cpp", "autotune")

actions = st.lists(
    st.tuples(
        st.integers(0, 5),  # how far the clock goes on
        st.sampled_from(["begin", "begin", "end", "cut"]),
        st.sampled_from([HOME, OTHER, THIRD]),
        st.sampled_from(PHASES),
    ),
    max_size=40,
)


def told(events: list[tuple[int, str, int, str]]) -> tuple[dict[int, str], int]:
    """The phase of each nanosecond as the partition tells it, and where it ended."""
    writes: list[tuple[int, str]] = []
    partition = Partition(0, HOME, lambda ns, phase: writes.append((ns, phase)))
    stacks: dict[int, list[Open]] = {HOME: [], OTHER: [], THIRD: []}
    now = 0
    for step, action, thread, phase in events:
        now += step
        if action == "begin":
            stacks[thread].append(partition.begin(now, thread, phase))
        elif action == "end" and stacks[thread]:
            partition.end(now, thread, stacks[thread].pop())
        elif action == "cut":
            partition.cut(now, thread)
    end = partition.finish(now + 1)
    assert [ns for ns, _ in writes] == sorted(ns for ns, _ in writes)
    spans = zip(writes, [*(ns for ns, _ in writes[1:]), end], strict=True)
    return {ns: phase for (start, phase), stop in spans for ns in range(start, stop)}, end


def obvious(events: list[tuple[int, str, int, str]]) -> dict[int, str]:
    """The same, by looking at the whole state anew for every nanosecond."""
    stacks: dict[int, list[tuple[str, int]]] = {HOME: [], OTHER: [], THIRD: []}
    owner, now = HOME, 0
    phases: dict[int, str] = {}

    def innermost() -> str:
        if stacks[owner]:
            return stacks[owner][-1][0]
        tops = [stack[-1] for stack in stacks.values() if stack and stack[-1][0] in COMPILE]
        return max(tops, key=lambda top: top[1])[0] if tops else UNATTRIBUTED

    for order, (step, action, thread, phase) in enumerate(events):
        for ns in range(now, now + step):
            phases[ns] = innermost()
        now += step
        if action == "begin":
            tunes = any(each == "autotune" for each, _ in stacks[thread])
            stacks[thread].append(("autotune" if tunes else phase, now * 1000 + order))
        elif action == "end" and stacks[thread]:
            stacks[thread].pop()
        elif action == "cut":
            owner = thread
    phases[now] = innermost()
    return phases


@given(actions)
def test_every_nanosecond_has_the_phase_that_the_rules_give_it(events: list[tuple[int, str, int, str]]) -> None:
    found, end = told(events)
    expected = obvious(events)
    assert end == len(expected)
    ties = _instants_with_equal_begins(events)
    assert {ns for ns in expected if found.get(ns) != expected[ns]} <= ties


def _instants_with_equal_begins(events: list[tuple[int, str, int, str]]) -> set[int]:
    # two phases of other threads begun in the same nanosecond: either is right
    now, begins = 0, []
    for step, action, _, _ in events:
        now += step
        if action == "begin":
            begins.append(now)
    first = next((ns for ns in begins if begins.count(ns) > 1), None)
    return set() if first is None else set(range(first, now + 1))


def test_what_comes_late_counts_from_the_time_already_told() -> None:
    writes: list[tuple[int, str]] = []
    partition = Partition(0, HOME, lambda ns, phase: writes.append((ns, phase)))
    partition.begin(100, HOME, "jax.trace")
    late = partition.begin(40, HOME, "import.torch")  # stamped before, appended after
    partition.end(60, HOME, late)
    assert writes == [(0, UNATTRIBUTED), (100, "jax.trace"), (100, "import.torch"), (100, "jax.trace")]


def test_the_step_belongs_to_the_thread_that_entered_it() -> None:
    writes: list[tuple[int, str]] = []
    partition = Partition(0, HOME, lambda ns, phase: writes.append((ns, phase)))
    partition.begin(10, HOME, "import.torch")
    partition.cut(20, OTHER)
    partition.begin(30, OTHER, "execute")
    partition.cut(40)
    assert writes == [
        (0, UNATTRIBUTED),
        (10, "import.torch"),
        (20, UNATTRIBUTED),
        (30, "execute"),
        (40, "import.torch"),
    ]
