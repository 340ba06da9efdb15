"""When device traces are recorded, how a foreign clock's time becomes ours, where the ledger takes `execute` from."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

import coldstep
from coldstep.candidates import Candidate
from coldstep.clock import Mapping, Mark
from coldstep.events import DeviceSlice, DeviceWindow, Event
from coldstep.pftrace import layout
from coldstep.recording import device_window
from coldstep.recording.device_tracks import Held, Ties, union
from coldstep.recording.device_window import ALL, UNTIL_SETTLED, Window
from coldstep_collectors.profiler_session import Lines, thread_name

SECOND = 1_000_000_000


def marks(at: int, ahead: int, plays: list[tuple[int, int]]) -> list[Mark]:
    """Events of 100 ns from `at` on (their clock, which ours is `ahead` of), each with that much play around it."""
    return [Mark(t + ahead - before, t + 100 + ahead + after, t, t + 100)
            for t, (before, after) in zip(range(at, at + 1000 * len(plays), 1000), plays, strict=True)]  # fmt: skip


plays = st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 50_000)), min_size=1, max_size=5)


@given(st.integers(-SECOND, 1 << 60), st.integers(-100_000, 100_000), plays, plays, st.floats(0, 1))
def test_a_mapped_time_is_off_by_no_more_than_the_bound(
    ahead: int, drift: int, first: list[tuple[int, int]], last: list[tuple[int, int]], when: float
) -> None:
    start, end = SECOND, 60 * SECOND
    mapping = Mapping(marks(start, ahead, first), marks(end, ahead + drift, last))
    asked = start + round(when * (end - start))
    truth = asked + ahead + round(drift * when)
    assert abs(mapping(asked) - truth) <= mapping.bound_ns + 1


@given(st.integers(1, 3_600 * SECOND))
def test_a_clock_that_was_set_in_between_widens_the_bound_by_as_much(step: int) -> None:
    """Nothing tells when it was set: a time in between can be off by all of it."""
    mapping = Mapping(marks(0, 0, [(100, 100)]), marks(60 * SECOND, step, [(100, 100)]))
    assert step <= mapping.bound_ns <= step + 200


def test_tight_marks_give_a_tight_bound() -> None:
    loose = marks(SECOND, 5, [(40_000, 40_000)])
    assert Mapping(loose, []).bound_ns == 40_000
    assert Mapping([*loose, *marks(SECOND, 5, [(200, 0), (0, 300)])], []).bound_ns <= 1


class Recorded:
    """A window whose one recording tells when it runs."""

    def __init__(self, when: str, *, follows: bool = False) -> None:
        self.said: list[Event | str] = []
        tell = lambda event: self.said.append("open" if opened(event) else "closed")  # noqa: E731
        self.window = Window(when, tell, follows=follows)
        self.window.add(lambda _: self.said.append("run"), lambda: self.said.append("rest"), any_time=False)

    def step(self, name: str, compiled: bool) -> list[Event | str]:
        self.window.step_begins(name)
        self.window.step_ended(name, compiled)
        said, self.said = self.said, []
        return said


def opened(event: Event) -> bool:
    assert isinstance(event, DeviceWindow)
    return event.open


def test_until_two_steps_in_a_row_compiled_nothing() -> None:
    recorded = Recorded(UNTIL_SETTLED)
    assert recorded.said == []
    assert recorded.step("step", True) == ["open", "run"]
    assert recorded.step("step", False) == ["run"]
    assert recorded.step("step", True) == ["run"]
    assert recorded.step("step", False) == ["run"]
    assert recorded.step("step", False) == ["run", "rest", "closed"]
    assert recorded.step("step", True) == []
    assert recorded.step("step", False) == []


def test_a_kind_of_step_that_comes_later_is_recorded_from_its_own_step_0() -> None:
    recorded = Recorded(UNTIL_SETTLED)
    for _ in range(2):
        recorded.step("train", False)
    assert recorded.step("validate", True) == ["open", "run"]
    assert recorded.step("train", True) == ["rest", "closed"]
    assert recorded.step("validate", False) == ["open", "run"]


def test_all_needs_no_step() -> None:
    recorded = Recorded(ALL)
    assert recorded.said == ["open", "run"]
    recorded.said.clear()
    assert [recorded.step("step", False) for _ in range(4)] == [["run"]] * 4


def test_what_may_not_be_recorded_at_any_time_waits_for_the_program_where_no_step_is_told() -> None:
    recorded = Recorded(UNTIL_SETTLED, follows=True)
    window, called = recorded.window, Candidate("optimizer", "Adam.step", None)
    window.look([called], 1, compiles=False)
    assert (recorded.said, window.due_ns > 0) == ([], True)
    window.between_calls()
    assert (recorded.said, window.due_ns) == (["open", "run"], 0)
    window.look([called], 1, compiles=False)
    called.calls.extend([(1, 2)] * 3)
    window.look([called], 1, compiles=True)
    assert window.due_ns == 0, "while it compiles nothing is asked"
    window.look([called], 1, compiles=False)
    assert (recorded.said, window.due_ns > 0) == (["open", "run"], True)
    window.between_calls()
    assert (recorded.said, window.due_ns) == (["open", "run", "rest", "closed"], 0)


def test_within_a_span_of_its_profiler_a_recording_ends_or_begins_and_as_a_call_begins_it_only_begins() -> None:
    recorded = Recorded(UNTIL_SETTLED, follows=True)
    window = recorded.window
    window.look([], 1, compiles=False)
    window.between_calls(None)
    assert (recorded.said, window.due_ns) == (["open", "run"], 0)
    window.due_ns = 1
    window.between_calls(None)
    assert (recorded.said, window.due_ns) == (["open", "run"], 1)
    window.between_calls("Optimizer.step#Adam.step")
    assert recorded.said == ["open", "run", "run"]
    assert window.due_ns > 1, "the next begins at another point"
    window.between_calls(None)
    assert (recorded.said, window.due_ns) == (["open", "run", "run", "run"], 0)


def test_what_waits_for_too_long_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_window, "_ASKED_NS", 0)
    recorded = Recorded(UNTIL_SETTLED, follows=True)
    recorded.window.between_calls()
    recorded.window.look([], 1, compiles=False)
    recorded.window.look([], 1, compiles=False)
    assert recorded.said == ["open", "run"]
    monkeypatch.setattr(device_window, "_PATIENCE_NS", 0)
    recorded.window.look([], 1, compiles=False)
    assert recorded.said == ["open", "run", "rest"]
    recorded.window.between_calls()
    assert recorded.said == ["open", "run", "rest", "run"]


def release(stretches: list[tuple[int, int]], executed: list[tuple[int, int]]) -> list[tuple[int, int, str]]:
    written: list[tuple[int, int, str]] = []
    held = Held(lambda start, end, phase: written.append((start, end, phase)))
    held.open = True
    for start, end in stretches:
        assert held.goes_on(start, "unattributed")
        held.goes_on(end, "jax.trace")
    held.executed(executed)
    held.release()
    return written


def test_unattributed_time_in_which_the_device_ran_is_execute() -> None:
    u, x = "unattributed", "execute"
    assert release([(0, 10), (20, 30)], []) == [(0, 10, u), (20, 30, u)]
    assert release([(0, 10)], [(2, 4), (3, 6)]) == [(0, 2, u), (2, 6, x), (6, 10, u)]
    assert release([(0, 10), (20, 30)], [(5, 25)]) == [(0, 5, u), (5, 10, x), (20, 25, x), (25, 30, u)]


spans = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 20)).map(lambda s: (s[0], s[0] + s[1])), max_size=300)


@given(spans)
def test_however_finely_it_ran_the_sums_are_exact_and_the_slices_few(executed: list[tuple[int, int]]) -> None:
    stretches = [(0, 700), (900, 1500)]
    written = release(stretches, executed)
    inside = sum(max(0, min(b, end) - max(a, start)) for a, b in union(executed) for start, end in stretches)
    assert sum(end - start for start, end, phase in written if phase == "execute") == inside
    assert sum(end - start for start, end, _ in written) == 1300
    assert all(start < end for start, end, _ in written)
    assert all(before[1] <= after[0] for before, after in pairwise(written))
    assert len(written) <= 2 * (64 * 2 + 1)


def test_an_id_that_a_reset_gave_again_is_the_latest_compiles() -> None:
    ties = Ties()
    ties.began(100, "c0", {"framework_id": "0/0"})
    ties.began(500, "c7", {"framework_id": "0/0"})
    found = [ties.find(DeviceSlice(ns, ns, "region", "operator", {"framework_id": "0/0"}), "device", 0)
             for ns in (99, 100, 499, 500)]  # fmt: skip
    assert found == [None, "c0", "c0", "c7"]


def test_threads_that_compile_at_the_same_time_are_told_apart_by_the_program_or_not_at_all() -> None:
    ties = Ties()
    ties.xla_worked(100, 200, "c0", "f")
    ties.xla_worked(150, 300, "c1", "g")

    def tie(start: int, end: int, module: str | None = None) -> str | None:
        args = {"module": module} if module else None
        return ties.find(DeviceSlice(start, end, "fusion", "xla.pass", args), "xla", 5)

    assert tie(96, 120) == "c0"
    assert tie(60, 120) is None
    assert tie(160, 180) is None
    assert tie(160, 180, "jit_g") == "c1"


def test_an_unknown_word_for_device_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"device='settled' is none of 'until-settled\+2', 'all', 'off'"):
        coldstep.trace(tmp_path / "t.pftrace", device="settled")
    command = [sys.executable, "-m", "coldstep", "run", "--device=settled", "x.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "invalid choice: 'settled'" in done.stderr


@pytest.mark.parametrize("words", [["--device", "all"], ["--device=all"], []])
def test_the_option_leaves_the_scripts_own_arguments_alone(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "x.py").write_text("import sys; print(sys.argv)")
    command = [sys.executable, "-m", "coldstep", "run", *words, "x.py", "--device", "all"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "['x.py', '--device', 'all']\n"
    assert {"xspace", "kineto"} <= {row.name for row in coldstep.load(tmp_path / "x.pftrace").collectors}


def test_nothing_is_recorded_where_it_is_switched_off(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "t.pftrace", device="off"):
        pass
    names = [row.name for row in coldstep.load(tmp_path / "t.pftrace").collectors]
    assert "imports" in names
    assert not {"xspace", "kineto"} & set(names)


@pytest.mark.parametrize(
    ("category", "name", "what"),
    [
        ("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "all_reduce"),
        ("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("kernel", "ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)", "all_gather"),
        ("kernel", "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "nccl"),
        ("kernel", "reduce-scatter-start.3", "reduce_scatter"),
        ("annotation", "gloo:all_reduce", "all_reduce"),
        ("annotation", "nccl:all_reduce", None),  # its launch
        ("operator", "c10d::allreduce_", None),
    ],
)
def test_a_collective_is_told_by_what_runs_it(category: str, name: str, what: str | None) -> None:
    assert layout.inside(category, name) == (what and f"device.collective.{what}")


def test_a_thread_has_its_name_in_python_or_else_the_systems_or_a_number() -> None:
    known: SimpleQueue[int] = SimpleQueue()
    end = threading.Event()
    _thread.start_new_thread(lambda: (known.put(threading.get_native_id()), end.wait()), ())
    unknown = known.get()
    assert thread_name(threading.get_native_id()) == threading.current_thread().name
    assert thread_name(unknown) == Path(f"/proc/self/task/{unknown}/comm").read_text().strip() != ""
    end.set()
    assert thread_name(-549452224) == "-549452224"


def test_lines_together_have_a_bound_over_which_the_oldest_slices_are_dropped_and_counted() -> None:
    lines = Lines()
    for line in range(5):
        lines.add("device", "stream", line, range(line, 300_000, 5), lambda ns: DeviceSlice(ns, ns, "k", "kernel"))
    trace = lines.trace("test")
    kept = sorted(piece.ns for line in trace.lines for piece in line.slices)
    assert kept == list(range(200_000, 300_000))
    assert trace.dropped == 200_000
