"""A guest in the user's process, with the real frameworks: forks, spawns, threads, kills, and nothing left behind."""

from __future__ import annotations

import time
from pathlib import Path
from types import ModuleType

import program
import pytest
from sessions import check_ledger, install

import coldstep


@pytest.mark.torch
def test_a_data_loader_with_workers_forks_in_peace(tmp_path: Path) -> None:
    done = program.run(
        """
        import torch
        import coldstep

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, index):
                with coldstep.step("in a worker"), coldstep.annotate("in a worker"):
                    return torch.full((2,), float(index))

        compiled = torch.compile(lambda x: (x * 2).sum(), backend="eager")
        total = 0.0
        with coldstep.trace("t.pftrace"):
            for epoch in range(2):
                loader = torch.utils.data.DataLoader(Data(), batch_size=3, num_workers=2)
                for batch in coldstep.steps(loader, name="train"):
                    total += compiled(batch).item()
        print(total)
        """,
        tmp_path,
        stack="torch",
    )
    assert float(done.stdout) == 2 * 2 * 2 * sum(range(12))
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert trace.run.ended == "ok"
    assert [(i.name, i.step) for i in trace.intervals if i.kind == "step"] == [("train", n) for n in range(8)]
    assert len(done.stderr.splitlines()) == 1
    check_ledger(trace)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_leave_the_trace_alone(tmp_path: Path, method: str) -> None:
    done = program.run(
        f"""
        import multiprocessing
        import coldstep

        def work(n):
            with coldstep.step("child"):
                return n * n

        if __name__ == "__main__":
            with coldstep.trace("t.pftrace"):
                with coldstep.step("parent"):
                    with multiprocessing.get_context("{method}").Pool(2) as pool:
                        print(pool.map(work, range(4)))
        """,
        tmp_path,
    )
    assert done.stdout == "[0, 1, 4, 9]\n"
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert [i.name for i in trace.intervals if i.kind == "step"] == ["parent"]
    assert done.stderr.count("t.pftrace") == 1
    check_ledger(trace)


@pytest.mark.jax
def test_compiles_on_two_threads_at_once(tmp_path: Path, engine: ModuleType) -> None:
    program.run(
        """
        import threading
        import coldstep
        import jax, jax.numpy as jnp

        def make(k):
            def body(x):
                for i in range(30):
                    x = jnp.sin(x) @ x + k
                return x
            body.__name__ = f"body_{k}"
            return jax.jit(body)

        x = jnp.ones((8, 8))
        with coldstep.trace("t.pftrace"):
            barrier = threading.Barrier(2)
            def work(k):
                barrier.wait()
                coldstep.wait(make(k)(x))
            with coldstep.step("train"):
                threads = [threading.Thread(target=work, args=(k,), name=f"worker-{k}") for k in range(2)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
        """,
        tmp_path,
        stack="jax",
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    check_ledger(trace)
    compiles = [c for c in trace.compiles if c.function.startswith("body_")]
    assert {(c.function, c.segments[0].thread) for c in compiles} == {("body_0", "worker-0"), ("body_1", "worker-1")}
    assert {c.outcome for c in compiles} == {"compiled"}
    [step] = [i for i in trace.intervals if i.kind == "step"]
    # the owner only joined: the time is that of the compiles which ran meanwhile
    assert step.phases["xla.compile"] > 0.2 * step.wall_ns
    assert sum(wait.worker_ns for wait in step.waits if wait.phase == "xla.compile") >= step.phases["xla.compile"]
    engine.assert_clean(tmp_path / "t.pftrace")


@pytest.mark.jax
def test_sigkill_in_the_middle_of_a_real_compile_shows_it_with_its_age(tmp_path: Path, engine: ModuleType) -> None:
    def is_old() -> bool:
        """Whether the compile goes on for 0.8 s and more than a beat: of a process that runs it counts up to now."""
        if not (tmp_path / "ready").exists():
            return False
        time.sleep(0.25)  # as often as it is written
        compiles = coldstep.load(tmp_path / "t.pftrace").compiles
        return any(c.function == "train_step" and c.wall_ns > 2_000_000_000 for c in compiles)

    program.kill_when(
        """
        import pathlib, time
        import coldstep
        import jax, jax.numpy as jnp

        def train_step(x):
            x = jnp.sin(x) @ x
            pathlib.Path("ready").touch()
            time.sleep(100)
            return x

        with coldstep.trace("t.pftrace"):
            with coldstep.step("train"):
                coldstep.wait(jax.jit(train_step)(jnp.ones((16, 16))))
        """,
        tmp_path,
        is_old,
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert trace.run.ended == "killed"
    [compile_] = [c for c in trace.compiles if c.function == "train_step"]
    assert compile_.outcome == "in_progress"
    assert compile_.wall_ns > 800_000_000
    check_ledger(trace)
    engine.assert_clean(tmp_path / "t.pftrace", open_slices=True)
    [rows] = engine.query(
        tmp_path / "t.pftrace",
        "select (select end_ts from trace_bounds) - ts age from slice where name = 'train_step' and dur = -1",
    )
    assert rows[0]["age"] > 800_000_000


HOOKS = """
import gc, logging, sys, threading, json

def hooks():
    state = {"meta_path": [id(f) for f in sys.meta_path], "gc": [id(c) for c in gc.callbacks],
             "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("coldstep"))}
    if "jax" in sys.modules:
        from jax._src import monitoring, util
        lists = [value for name, value in sorted(vars(monitoring).items()) if name.endswith("_listeners")]
        state["jax"] = [len(value) for value in lists if isinstance(value, list)]
        state["slot"] = repr(util.test_event_listener)
        state["jax profiler"] = repr(sys.modules["jaxlib._profiler"].ProfilerSession)
    if "torch" in sys.modules:
        log = logging.getLogger("torch.__trace")
        state["trace_log"] = [type(log.handlers).__name__, [type(h).__name__ for h in log.handlers]]
        profiler = sys.modules["torch.autograd.profiler"]
        state["torch profiler"] = [repr(profiler._prepare_profiler), profiler._is_profiler_enabled]
    if "torch._dynamo.utils" in sys.modules:
        import torch._dynamo.utils as utils
        state["chromium"] = repr(type(utils.CHROMIUM_EVENT_LOG))
    return state
"""


LATE = """
import sys, threading, time

class Collector:
    name = "mine"
    def start(self, sink):
        self.sink = sink
        sink.state(self.name, "attached", None, [])
        sink.when_imported("framework", self._attach)
        sink.on_device_trace(self._run, self._rest)
    def _attach(self, framework):
        attaching.set()
        time.sleep(0.3)
        framework.hook = self
    def _run(self):
        if threading.current_thread() is not threading.main_thread():
            recording.set()
            time.sleep(0.3)
            profiler.append(self)
    def _rest(self):
        profiler.clear()
    def stop(self):
        sys.modules["framework"].hook = None
        profiler.clear()
        compiles = threading.Thread(target=self.sink.compile_opened)
        compiles.start()
        compiles.join()
        self.sink.when_imported("framework", self._attach)
        return []
"""


def test_what_attaches_on_another_thread_as_the_trace_ends_does_not_stay(tmp_path: Path) -> None:
    """An import, a profiler before a step, a garbage watch as something compiles."""
    env = install(tmp_path, "", LATE)
    (tmp_path / "framework.py").write_text("hook = None\n")
    program.run(
        """
        import gc, importlib, threading
        import coldstep, mine

        mine.attaching, mine.recording, mine.profiler = threading.Event(), threading.Event(), []
        callbacks = list(gc.callbacks)

        def step():
            with coldstep.step():
                pass

        others = [threading.Thread(target=importlib.import_module, args=("framework",)), threading.Thread(target=step)]
        with coldstep.trace("t.pftrace", collectors=["mine"]):
            for other in others:
                other.start()
            mine.attaching.wait()
            mine.recording.wait()
        for other in others:
            other.join()
        import framework
        assert framework.hook is None
        assert mine.profiler == []
        assert gc.callbacks == callbacks
        """,
        tmp_path,
        env=env,
    )
    assert coldstep.load(tmp_path / "t.pftrace").run.notes == []


@pytest.mark.jax
@pytest.mark.torch
def test_after_a_trace_every_hook_is_as_it_was(tmp_path: Path) -> None:
    program.run(
        HOOKS
        + """
import jax, jax.numpy as jnp, torch, torch._dynamo.utils
torch._dynamo.utils.get_chromium_event_logger()  # torch makes it at its first compile
import coldstep
before = hooks()
with coldstep.trace("t.pftrace"), coldstep.step():
    during = hooks()
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    coldstep.wait(jax.jit(lambda x: x + 1)(jnp.ones(2)))
assert all(during[name] != before[name] for name in ("jax", "jax profiler", "torch profiler")), (before, during)
after = hooks()
# torch itself drops its lazy handler on the first compile where no TORCH_TRACE is set
for state in (before, after):
    state["trace_log"][1] = [name for name in state["trace_log"][1] if name != "LazyTraceHandler"]
assert after == before, (before, after)
""",
        tmp_path,
        stack="torch",
    )
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert {row.name: row.state for row in trace.collectors} == {
        "imports": "attached", "jax": "attached", "dynamo": "attached", "inductor": "attached",
        "xspace": "attached", "kineto": "attached", "process": "attached", "torch_xla": "absent",
        "tensorflow": "absent", "steps": "attached", "outside": "attached",
    }  # fmt: skip


@pytest.mark.jax
def test_a_recompile_is_tied_to_what_it_replaces_and_to_the_step_that_paid(tmp_path: Path, engine: ModuleType) -> None:
    program.run(
        """
        import coldstep
        import jax, numpy as np

        @jax.jit
        def train_step(x):
            return x * 2

        with coldstep.trace("t.pftrace"):
            for n in (4, 4, 4, 3, 4, 2):
                with coldstep.step("train"):
                    coldstep.wait(train_step(np.ones(n, np.float32)))
        """,
        tmp_path,
        stack="jax",
    )
    path = tmp_path / "t.pftrace"
    trace = coldstep.load(path)
    assert [(r.step, r.cause, r.before, r.after) for r in trace.recompiles] == [
        (3, "shape", "f32[4]", "f32[3]"),
        (5, "shape", "f32[3]", "f32[2]"),
    ]
    [rows] = engine.query(
        path,
        "select f.trace_id id, o.name outer_name, i.name inner_name from flow f "
        "join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in order by f.id",
    )
    flows: dict[int, list[tuple[str, str]]] = {}
    for row in rows:
        flows.setdefault(row["id"], []).append((row["outer_name"], row["inner_name"]))
    # the engine lets an arrow leave from the slice that begins first: a step begins before what it compiles
    assert list(flows.values()) == [
        [("train_step", "train_step"), (f"train {step} compiled", "train_step")] for step in (3, 5)
    ]
    engine.assert_clean(path)


@pytest.mark.parametrize("collects", [True, False])
def test_the_whole_heap_is_not_searched_for_garbage_as_a_trace_begins_or_ends(collects: bool, tmp_path: Path) -> None:
    done = program.run(
        f"""
        import gc
        import coldstep

        gc.set_threshold(100, 5, 1)  # what the imports of ours make would have it searched
        if not {collects}:
            gc.disable()
        gc.collect()
        seen = []
        gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
        before = len(seen)
        trace = coldstep.trace("t.pftrace", live=False)
        with trace:
            entered = len(seen)
            with coldstep.step():
                pass
            inside = len(seen)
        print(2 in seen[before:entered], 2 in seen[inside:], gc.isenabled())
        """,
        tmp_path,
    )
    assert done.stdout.split() == ["False", "False", str(collects)]
