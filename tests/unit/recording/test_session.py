"""A trace without any framework: intervals, marks, how a run ends, and manners towards the program around it."""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import ModuleType

import program
import pytest
from sessions import NONE, check_ledger, install

import coldstep
from coldstep.events import Begin, End, Within
from coldstep.model import Trace
from coldstep.pftrace.layout import cut
from coldstep.recording.buffer import Buffers
from coldstep.run_row import RunRow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.pftrace"


def kinds(trace: Trace) -> list[tuple[str, str | None, int | None]]:
    return [(interval.kind, interval.name, interval.step) for interval in trace.intervals]


def test_intervals_cover_the_run_without_a_gap(path: Path, engine: ModuleType) -> None:
    with coldstep.trace(path, collectors=NONE) as run:
        for _ in range(2):
            with coldstep.step("train"):
                coldstep.wait({"x": [1, 2]})
        with coldstep.step("validate"):
            pass
    trace = coldstep.load(run.path)
    assert kinds(trace) == [
        ("before", None, None),
        ("step", "train", 0),
        ("between", None, None),
        ("step", "train", 1),
        ("between", None, None),
        ("step", "validate", 0),
        ("after", None, None),
    ]
    assert [i.measures for i in trace.intervals if i.kind == "step"] == ["complete", "complete", "dispatch"]
    assert all("execute" in i.phases for i in trace.intervals if i.name == "train")
    assert (trace.run.ended, trace.run.error, trace.run.dropped.ledger) == ("ok", None, 0)
    check_ledger(trace)
    engine.assert_clean(path)
    [rows, tracks] = engine.query(
        path,
        "select s.name, sum(s.dur) ns from slice s join track t on t.id = s.track_id where t.name = 'Step phases' "
        "group by 1",
        "select s.name from slice s join track t on t.id = s.track_id where t.name = 'Steps' order by s.ts",
    )
    figures: dict[str, int] = {"unattributed": 0}
    for interval in trace.intervals:
        figures["unattributed"] += interval.unattributed_ns
        for phase, ns in interval.phases.items():
            figures[phase] = figures.get(phase, 0) + ns
    assert {row["name"]: row["ns"] for row in rows} == figures
    assert [row["name"] for row in tracks] == ["train 0 first", "train 1 clean", "validate 0 first"]


@pytest.mark.timing
def test_steps_takes_each_item_in_the_interval_before_its_step(path: Path) -> None:
    def slow() -> object:
        for item in range(2):
            time.sleep(0.02)
            yield item

    with coldstep.trace(path, collectors=NONE):
        assert list(coldstep.steps(slow(), name="train")) == [0, 1]
    trace = coldstep.load(path)
    walls = {(i.kind, i.step): i.wall_ns for i in trace.intervals}
    assert walls["before", None] >= 20_000_000
    assert walls["between", None] >= 20_000_000
    assert walls["step", 0] < 15_000_000


@pytest.mark.timing
def test_leaving_the_loop_ends_the_step(path: Path) -> None:
    with coldstep.trace(path, collectors=NONE):
        for item in coldstep.steps(range(5)):
            if item == 1:
                break
        time.sleep(0.01)
    trace = coldstep.load(path)
    assert [i.kind for i in trace.intervals] == ["before", "step", "between", "step", "after"]
    assert trace.intervals[-1].wall_ns >= 10_000_000


def test_a_step_inside_a_step_is_an_annotation_with_one_note(path: Path, engine: ModuleType) -> None:
    with coldstep.trace(path, collectors=NONE), coldstep.step("outer"):
        for n in range(3):
            with coldstep.step(f"inner {n}"), coldstep.annotate("data loading"):
                pass
    trace = coldstep.load(path)
    assert [i.name for i in trace.intervals if i.kind == "step"] == ["outer"]
    [note] = trace.run.notes
    assert note.startswith("Step 'inner 0' was opened while step 'outer' was open: it became an annotation")
    assert trace.intervals[1].phases == {}
    [rows] = engine.query(path, "select s.name from slice s join track t on t.id=s.track_id where t.name='Annotations'")
    assert sorted(row["name"] for row in rows) == ["data loading"] * 3 + [f"inner {n}" for n in range(3)]


def test_a_step_on_another_thread_belongs_to_that_thread(path: Path) -> None:
    def work() -> None:
        with coldstep.step("worker"):
            coldstep.wait(0)

    with coldstep.trace(path, collectors=NONE):
        coldstep.wait(0)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    trace = coldstep.load(path)
    assert [(i.kind, "execute" in i.phases) for i in trace.intervals] == [
        ("before", True),
        ("step", True),
        ("after", False),
    ]
    check_ledger(trace)


def test_without_a_trace_the_marks_do_nothing(tmp_path: Path) -> None:
    with coldstep.step() as bound, coldstep.annotate("x"):
        assert bound is None
    thing = object()
    assert coldstep.wait(thing) is thing
    assert list(coldstep.steps([1, 2])) == [1, 2]
    assert list(tmp_path.iterdir()) == []


def test_importing_coldstep_changes_nothing_in_the_process(tmp_path: Path) -> None:
    done = program.run(
        """
        import gc, sys, threading, os
        before = (list(sys.meta_path), list(gc.callbacks), threading.active_count(), dict(os.environ))
        known = set(sys.modules)
        import coldstep
        assert before == (list(sys.meta_path), list(gc.callbacks), threading.active_count(), dict(os.environ))
        new = {name.split(".")[0] for name in set(sys.modules) - known}
        print(sorted(new - set(sys.stdlib_module_names)))
        """,
        tmp_path,
    )
    assert done.stdout.strip() == "['coldstep', 'coldstep_shim']"


def test_what_a_trace_imports_is_the_standard_library(tmp_path: Path) -> None:
    done = program.run(
        """
        import sys
        known = set(sys.modules)
        import coldstep
        with coldstep.trace("t.pftrace"):
            with coldstep.step():
                pass
            new = {name.split(".")[0] for name in set(sys.modules) - known}
        print(sorted(new - set(sys.stdlib_module_names)))
        """,
        tmp_path,
    )
    assert done.stdout.strip() == "['coldstep', 'coldstep_collectors', 'coldstep_shim']"


def test_after_a_trace_the_process_is_as_it_was(path: Path) -> None:
    before = list(sys.meta_path), list(gc.callbacks), {t.name for t in threading.enumerate()}
    with coldstep.trace(path):
        assert "coldstep-drain" in {t.name for t in threading.enumerate()}
    assert (list(sys.meta_path), list(gc.callbacks), {t.name for t in threading.enumerate()}) == before


def test_two_traces_one_after_the_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with coldstep.trace(tmp_path / name, collectors=NONE), coldstep.step(name):
            pass
    for name in ("a", "b"):
        assert [i.name for i in coldstep.load(tmp_path / name).intervals if i.kind == "step"] == [name]


def test_a_trace_inside_a_trace_is_an_error_and_the_outer_one_goes_on(path: Path) -> None:
    with coldstep.trace(path, collectors=NONE):
        with pytest.raises(RuntimeError, match="already active"), coldstep.trace(path):
            pass
        with coldstep.step():
            pass
    assert len(coldstep.load(path).intervals) == 3


def test_an_unknown_collector_is_an_error_before_anything_is_written(path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"no collector named nonsense; installed: .*jax"),
        coldstep.trace(path, collectors=["nonsense"]),
    ):
        pass
    assert not path.exists()
    with coldstep.trace(path, collectors=NONE):
        pass


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), coldstep.trace(tmp_path / "no" / "t.pftrace"):
        pass
    with coldstep.trace(tmp_path / "t.pftrace", collectors=NONE):
        pass


def test_rank_and_pid_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    with coldstep.trace(tmp_path / "t-{rank}-{pid}.pftrace", collectors=NONE) as run:
        pass
    assert run.path == str(tmp_path / f"t-3-{os.getpid()}.pftrace")
    assert coldstep.load(run.path).processes[0].rank == 3


@pytest.mark.parametrize(
    ("ending", "ended", "error", "code"),
    [
        ("raise ValueError('a bad batch')", "exception", "ValueError: a bad batch", 1),
        ("sys.exit(3)", "exit", "SystemExit: 3", 3),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", "interrupted", "KeyboardInterrupt", -2),
        ("raise MemoryError", "out_of_memory", "MemoryError", 1),
        (
            "raise RuntimeError('Error preparing computation: Out of memory allocating 67108864 bytes.')",
            "out_of_memory",
            "RuntimeError: Error preparing computation: Out of memory allocating 67108864 bytes.",
            1,
        ),
    ],
)
def test_what_ended_the_block_is_on_the_trace_and_goes_on_unchanged(
    tmp_path: Path, ending: str, ended: str, error: str, code: int
) -> None:
    done = program.run(
        f"""
        import os, signal, sys, time
        import coldstep
        with coldstep.trace("t.pftrace", collectors=[]):
            with coldstep.step(): pass
            with coldstep.step():
                {ending}
        """,
        tmp_path,
        check=False,
    )
    assert done.returncode == code, done.stderr
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert (trace.run.ended, trace.run.error) == (ended, error)
    assert [i.kind for i in trace.intervals] == ["before", "step", "between", "step", "after"]
    assert "t.pftrace" in done.stderr
    if ended == "exception":
        assert "ValueError: a bad batch" in done.stderr
    check_ledger(trace)


def test_ctrl_c_in_the_middle_of_busy_marks_loses_no_event(tmp_path: Path) -> None:
    done = program.run(
        """
        import os, signal, sys, threading
        import coldstep
        count = 0
        try:
            with coldstep.trace("t.pftrace", collectors=[]):
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
                while True:
                    with coldstep.step():
                        pass
                    count += 1
        except KeyboardInterrupt:
            print(count)
        """,
        tmp_path,
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    steps = [i.step for i in trace.intervals if i.kind == "step"]
    assert steps == list(range(len(steps)))
    assert len(steps) - int(done.stdout) in (0, 1)
    check_ledger(trace)


def test_sigkill_leaves_the_steps_whole_and_the_open_step_with_its_age(tmp_path: Path, engine: ModuleType) -> None:
    path = tmp_path / "t.pftrace"
    program.kill_when(
        """
        import time, pathlib
        import coldstep
        with coldstep.trace("t.pftrace", collectors=[]):
            for _ in range(3):
                with coldstep.step("train"):
                    coldstep.wait(0)
            with coldstep.step("train"):
                pathlib.Path("ready").touch()
                time.sleep(60)
        """,
        tmp_path,
        (tmp_path / "ready").exists,
        after_s=0.6,
    )
    trace = coldstep.load(path)
    assert trace.run.ended == "killed"
    assert kinds(trace)[-1] == ("step", "train", 3)
    assert [i.step for i in trace.intervals if i.kind == "step"] == [0, 1, 2, 3]
    assert all("execute" in i.phases for i in trace.intervals if i.step in (0, 1, 2))
    assert any(finding.kind == "blind" for finding in trace.findings)
    check_ledger(trace)
    engine.assert_clean(path, open_slices=True)


def test_a_collector_that_raises_is_detached_with_one_note_and_the_rest_goes_on(tmp_path: Path) -> None:
    env = install(tmp_path, "raise KeyError(what)")
    done = program.run(
        """
        import coldstep
        with coldstep.trace("t.pftrace", collectors=["mine", "imports"]) as run:
            [mine] = [c for c in run.attached.collectors if c.name == "mine"]
            for _ in range(5):
                with coldstep.step():
                    assert mine.hook("boom") is None
        """,
        tmp_path,
        env=env,
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    [row] = [row for row in trace.collectors if row.name == "mine"]
    assert row.state == "failed"
    said = "collector mine failed and was detached: KeyError: 'boom'"
    assert trace.run.notes.count(said) == 1
    assert done.stderr.count(said) == 1
    assert "Traceback" not in done.stderr
    assert next(row for row in trace.collectors if row.name == "imports").state == "attached"
    assert sum(interval.kind == "step" for interval in trace.intervals) == 5
    blind = [finding for finding in trace.findings if finding.kind == "blind"]
    assert [finding.severity for finding in blind] == ["error"]


def test_what_a_collector_leaves_in_the_process_is_listed(tmp_path: Path) -> None:
    env = install(tmp_path, "pass")
    program.run(
        """
        import coldstep
        with coldstep.trace("t.pftrace", collectors=["mine"]):
            pass
        """,
        tmp_path,
        env=env,
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert "mine leaves in the process, inert: a wrapped function" in trace.run.notes


def test_ctrl_c_passes_through_a_hook(tmp_path: Path) -> None:
    env = install(tmp_path, "raise KeyboardInterrupt")
    done = program.run(
        """
        import coldstep
        try:
            with coldstep.trace("t.pftrace", collectors=["mine"]) as run:
                run.attached.collectors[0].hook("x")
        except KeyboardInterrupt:
            print("passed")
        """,
        tmp_path,
        env=env,
    )
    assert done.stdout == "passed\n"


COMPILE = """
sink = self.sink
c = sink.new_compile()
args = {"part": "forward", "function": what, "origin": "user", "identity": what, "key": what}
segment = Begin(now(), what, "jax", None, c, args)
phase = Begin(now(), "xla.compile", "jax", "xla.compile")
sink.emit(segment)
sink.emit(phase)
sink.compile_opened()
sink.wake()
return segment, phase
"""


@pytest.mark.timing
def test_a_kill_in_the_middle_of_a_compile_shows_which_and_for_how_long(tmp_path: Path, engine: ModuleType) -> None:
    env = install(tmp_path, COMPILE)
    os.environ.update(env)
    try:
        program.kill_when(
            """
            import time, pathlib
            import coldstep
            with coldstep.trace("t.pftrace", collectors=["mine"]) as run:
                with coldstep.step("train"):
                    run.attached.collectors[0].hook("train_step")
                    pathlib.Path("ready").touch()
                    time.sleep(60)
            """,
            tmp_path,
            (tmp_path / "ready").exists,
            after_s=1.2,
        )
    finally:
        del os.environ["PYTHONPATH"]
    trace = coldstep.load(tmp_path / "t.pftrace")
    [compile_] = trace.compiles
    assert (compile_.function, compile_.outcome) == ("train_step", "in_progress")
    assert 600_000_000 < compile_.wall_ns < 10_000_000_000
    step = trace.intervals[-1]
    assert (step.kind, step.name) == ("step", "train")
    assert step.phases["xla.compile"] > 600_000_000
    check_ledger(trace)
    engine.assert_clean(tmp_path / "t.pftrace", open_slices=True)
    [rows] = engine.query(
        tmp_path / "t.pftrace",
        # as docs/how-to/perfetto.md has it, for what was open has a dur of -1
        "select s.name, sum(iif(dur = -1, trace_end() - ts, dur)) ns from slice s join track t on t.id = s.track_id "
        "where t.name = 'Step phases' and s.name = 'xla.compile'",
    )
    assert rows == [{"name": "xla.compile", "ns": step.phases["xla.compile"]}]


def test_a_full_disk_ends_the_recording_once_and_not_the_program(tmp_path: Path) -> None:
    done = program.run(
        """
        import resource
        import coldstep
        with coldstep.trace("t.pftrace", collectors=[]):
            with coldstep.step("train"):
                pass
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
            for _ in range(300):
                with coldstep.step("train"):
                    pass
            print("trained")
        """,
        tmp_path,
    )
    assert done.stdout == "trained\n"
    assert done.stderr.count("cannot write the trace any more") == 1
    assert "Traceback" not in done.stderr
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert trace.run.ended == "killed"
    assert trace.intervals[1].step == 0
    check_ledger(trace)


def test_a_disk_that_has_room_again_at_the_end_says_how_much_was_lost(tmp_path: Path) -> None:
    program.run(
        """
        import resource
        import coldstep
        with coldstep.trace("t.pftrace", collectors=[]):
            with coldstep.step("train"):
                pass
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
            for _ in range(300):
                with coldstep.step("train"):
                    pass
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        """,
        tmp_path,
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert trace.run.ended == "ok"
    assert trace.run.dropped.ledger > 0
    assert any(finding.kind == "blind" and "lost" in finding.text for finding in trace.findings)
    check_ledger(trace)


def test_a_forked_child_writes_nothing_and_may_trace_for_itself(tmp_path: Path) -> None:
    done = program.run(
        """
        import os, sys
        import coldstep
        with coldstep.trace("parent.pftrace", collectors=[]) as run:
            with coldstep.step("parent"):
                child = os.fork()
                if child == 0:
                    with coldstep.step("child"):
                        coldstep.wait(0)
                    with coldstep.trace("child.pftrace", collectors=[]):
                        with coldstep.step("own"):
                            pass
                    sys.exit(0)  # leaves the parent's block, as a careless worker does
                os.waitpid(child, 0)
            with coldstep.step("parent"):
                pass
        """,
        tmp_path,
    )
    parent, child = coldstep.load(tmp_path / "parent.pftrace"), coldstep.load(tmp_path / "child.pftrace")
    assert [i.name for i in parent.intervals if i.kind == "step"] == ["parent", "parent"]
    assert parent.run.ended == "ok"
    assert [i.name for i in child.intervals if i.kind == "step"] == ["own"]
    assert done.stderr.count("parent.pftrace:") == 1
    check_ledger(parent)


def test_garbage_collections_are_a_phase_only_while_something_compiles(tmp_path: Path) -> None:
    env = install(tmp_path, COMPILE)
    program.run(
        """
        import gc
        import coldstep
        from coldstep.clock import now
        from coldstep.events import End
        with coldstep.trace("t.pftrace", collectors=["mine"]) as run:
            junk = [[i] for i in range(200_000)]
            with coldstep.step():
                gc.collect()
            with coldstep.step():
                segment, phase = run.attached.collectors[0].hook("f")
                assert len(gc.callbacks) == 1
                gc.collect()
                run.emit(End(now(), phase))
                run.emit(End(now(), segment, {"outcome": "compiled"}))
                run.sink.compile_closed()
                assert gc.callbacks == []
        """,
        tmp_path,
        env=env,
    )
    first, second = [i for i in coldstep.load(tmp_path / "t.pftrace").intervals if i.kind == "step"]
    assert "gc" not in first.phases
    assert second.phases["gc"] >= 1_000_000


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("coldstep/2", "was made by a newer coldstep (coldstep/2; this one reads up to coldstep/1): update coldstep"),
        ("coldstep/0", "was made by an older coldstep (coldstep/0; this one reads coldstep/1 and later): read it with "
         "that one, or trace again"),
        ("hotstep/1", "has schema 'hotstep/1', which coldstep does not know: trace again"),
    ],
)  # fmt: skip
def test_a_trace_too_new_or_too_old_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: str, said: str
) -> None:
    path = tmp_path / "t.pftrace"
    monkeypatch.setattr("coldstep.session.RunRow", partial(RunRow, schema=schema))
    with coldstep.trace(path, collectors=NONE):
        pass
    with pytest.raises(ValueError, match=re.escape(f"{path} {said}")):
        coldstep.load(path)


def test_a_trace_of_another_tool_is_named_as_such(tmp_path: Path) -> None:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb2

    path = tmp_path / "other.pftrace"
    other = pb2.Trace()
    other.packet.add(timestamp=5).track_event.type = pb2.TrackEvent.TYPE_INSTANT
    path.write_bytes(other.SerializeToString())
    with pytest.raises(ValueError, match="not a trace that coldstep wrote"):
        coldstep.load(path)


def test_any_name_makes_a_readable_trace(path: Path, engine: ModuleType) -> None:
    names: list[object] = [None, 3, ("a", 1), b"bytes", "a | b", "\x1b[31mred", "\udcff", "x" * 10_000, ""]
    with coldstep.trace(path, collectors=NONE):
        for name in names:
            with coldstep.step(name), coldstep.annotate(name):  # type: ignore[arg-type]
                pass
    trace = coldstep.load(path)
    shown = [cut(str(name).encode("utf-8", "replace").decode()) for name in names]
    assert [i.name for i in trace.intervals if i.kind == "step"] == shown
    engine.assert_clean(path)


@pytest.mark.timing
def test_a_step_that_never_ended_counts_for_nothing(tmp_path: Path) -> None:
    program.kill_when(
        """
        import time, pathlib
        import coldstep
        with coldstep.trace("t.pftrace", collectors=[]):
            for n in range(4):
                with coldstep.step("train"):
                    if n == 3:
                        pathlib.Path("ready").touch()
                        time.sleep(60)
                    time.sleep(0.01)
        """,
        tmp_path,
        (tmp_path / "ready").exists,
        after_s=1.3,
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    hung = trace.intervals[-1]
    assert trace.unfinished == hung.index
    assert (hung.step, hung.label) == (3, None)
    assert hung.wall_ns > 700_000_000  # a heartbeat says how long it had hung, nothing compiled
    [settling], [cost] = trace.settling, trace.cost
    assert (settling.verdict, settling.settled_at_step) == ("settled", 0)
    assert cost.steady_step_ns is None  # steps 1 and 2 alone
    check_ledger(trace)


def test_the_program_may_change_its_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = program.run(
        """
        import os
        import coldstep
        with coldstep.trace("t.pftrace", collectors=[]) as run:
            os.chdir("elsewhere")
            with coldstep.step(): pass
        print(run.report())
        """,
        tmp_path,
    )
    assert "first step" in done.stdout
    assert "first step" in done.stderr
    assert (tmp_path / "t.pftrace").exists()


def test_a_closed_stderr_is_nobody_elses_descriptor(tmp_path: Path) -> None:
    done = program.run(
        """
        import os, sys
        os.close(2)
        sys.stderr = None
        import coldstep
        with coldstep.trace("t.pftrace", collectors=[]):
            with coldstep.step(): pass
            try:
                os.write(2, b"garbage")
            except OSError:
                pass
        print("done")
        """,
        tmp_path,
    )
    assert done.stdout == "done\n"
    assert coldstep.load(tmp_path / "t.pftrace").run.ended == "ok"


def test_what_is_asked_for_late_is_written_where_it_was_in_time() -> None:
    buffers = Buffers(lambda: None, lambda _: None, held=False)
    inner = Begin(10, "wait", "execute", "execute")

    def other() -> None:
        sync = Begin(0, "sync", "torch_xla", "torch_xla.lower")
        for event in (sync, Within(0, lambda: [inner, End(90, inner)]), Within(0, lambda: [][0]), End(100, sync)):
            buffers.append(event)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    step = Begin(50, "step", "annotations")
    for event in (step, End(60, step)):
        buffers.append(event)
    assert [(ns, type(event).__name__) for ns, event, _ in buffers.take()] == [
        (0, "Begin"), (10, "Begin"), (50, "Begin"), (60, "End"), (90, "End"), (100, "End"),
    ]  # fmt: skip
