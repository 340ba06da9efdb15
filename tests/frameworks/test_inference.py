"""Which of what a program repeats are its steps: the rule, on rows made by hand, and with the real frameworks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import program
import pytest

import coldstep
from coldstep.analysis.budgets import judge, parse
from coldstep.analysis.steps.inference import Choice, Made, Repeated, choose
from coldstep.candidates import Candidate, Kind, read
from coldstep.errors import TraceError
from coldstep.model import UNATTRIBUTED, Location, Trace
from coldstep.rows.spans import Spans
from coldstep_viewers.report.terminal import render

HOME = 1


def seen(
    function: str,
    calls: Sequence[int | tuple[int, int]],
    kind: Kind = "call",
    line: int | None = None,
    **more: object,
) -> Repeated:
    """A candidate whose calls ended then, or began and ended then; one of a line of its own unless that is given."""
    spans = Spans(call if isinstance(call, tuple) else (call - 1, call) for call in calls)
    place = Location("train.py", line or 1 + sum(map(ord, function)), "main")
    row = Repeated(function, kind, function, "", place, HOME, spans, loop=True)
    return replace(row, **more)  # type: ignore[arg-type]


def told(choice: Choice) -> dict[str, tuple[str, int]]:
    """Of each kind of step: what it was inferred from, and how many there are."""
    return {story.name: (story.by.of, len(story.steps)) for story in choice.stories}


def found(*rows: Repeated, made: Sequence[Made] = (), asked: str | None = None) -> Choice:
    return choose(rows, made, synced=False, asked=asked)


@pytest.mark.parametrize(
    ("d", "g", "steps"),
    [
        ([10, 30, 50], [20, 40, 60], ("G", 3)),  # a GAN
        ([1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25], [6, 16, 26], ("G", 3)),  # five of D to one of G
        ([10, 30, 50, 70], [20, 40, 60], ("G", 3)),  # ended in the middle of a step
    ],
)
def test_a_step_ends_with_the_last_of_several_optimizers(d: list[int], g: list[int], steps: tuple[str, int]) -> None:
    assert told(found(seen("D", d, "optimizer"), seen("G", g, "optimizer"))) == {"step": steps}


def test_layers_of_a_run_of_one_step_are_not_its_steps() -> None:
    layers = seen("Block", range(10, 70, 10), gradients=True)
    assert told(found(layers, seen("Adam", [90], "optimizer"))) == {"step": ("Adam", 1)}
    went_on = seen("Block", range(10, 130, 10), gradients=True)
    assert told(found(went_on, seen("Adam", [90], "optimizer"))) == {"step": ("Block", 12)}, "it did not end the run"


def test_layers_that_follow_each_other_without_a_compile_do_not_settle_a_program() -> None:
    from coldstep.recording.device_window import Following

    for optimizer in (True, False):
        layers = Candidate("call", "Block", None, gradients=True, id="s0")
        made = Candidate("setup", "torch.optim.Adam", None, id="s1")
        stepped = Candidate("optimizer", "Adam.step", None, id="s2")
        rows = [layers, *([made] if optimizer else [])]
        following = Following()
        assert not following.is_over(rows, 1)
        layers.calls.extend((n, n + 1) for n in range(6))
        assert following.is_over(rows, 1) is not optimizer
        rows.append(stepped)  # seen when it first steps
        stepped.calls.extend((n, n + 1) for n in range(3))
        assert following.is_over(rows, 1)


def test_what_follows_only_twice_does_not_end_a_step() -> None:
    choice = found(seen("A", range(10, 90, 10), "optimizer"), seen("B", [45, 85], "optimizer"))
    assert told(choice) == {"step": ("A", 8)}
    assert choice.notes == ["A ends a step: what follows it was seen 2 times only"]


def test_a_new_optimizer_each_epoch_is_the_same_one() -> None:
    epochs = [seen("Adam", range(100 * n, 100 * n + 30, 10), "optimizer", 7, instance=n, id=f"s{n}") for n in (1, 2, 3)]
    assert told(found(*epochs)) == {"step": ("Adam", 9)}


def test_two_loops_at_two_places_are_two_stories() -> None:
    first, second = (seen("SGD", range(at, at + 50, 10), "optimizer", line) for at, line in ((10, 18), (100, 29)))
    assert told(found(first, second)) == {"step at train.py:18": ("SGD", 5), "step at train.py:29": ("SGD", 5)}


def test_calls_that_train_come_before_calls_that_took_longer_to_compile() -> None:
    train = seen("run_epoch", [100, 300, 500, 700], gradients=True, looked=4, fed={"run_epoch": 3})
    evaluate = seen("evaluate", [(150, 250), (305, 320), (505, 520), (705, 720)], looked=4, gradients=False)
    choice = found(train, evaluate, made=[Made(HOME, 150, 240, True, False), Made(HOME, 20, 90, True, False)])
    assert told(choice) == {"step": ("run_epoch", 4), "call of evaluate": ("evaluate", 4)}
    [steps, calls] = [story.steps for story in choice.stories]
    assert [*steps] == [(99, 100), (250, 300), (320, 500), (520, 700)], "the evaluation is in no step"
    assert calls[0] == (150, 250)


def test_what_a_function_gets_from_another_one_is_in_its_step() -> None:
    grads = seen("grads", [10, 30, 50, 70], gradients=True, looked=4, fed={"update": 3})
    update = seen("update", [20, 40, 60, 80], gradients=False, looked=4, fed={"grads": 4, "update": 3})
    choice = found(grads, update)
    assert told(choice) == {"step": ("update", 4)}
    assert [*choice.stories[0].steps] == [(9, 20), (20, 40), (40, 60), (60, 80)]


def test_without_gradients_it_is_a_call() -> None:
    """A decoding loop feeds its state back, too."""
    decode = seen("decode", [*range(20, 50, 3), *range(70, 100, 3)], gradients=False, looked=6, fed={"decode": 5})
    prefill = seen("prefill", [15, 65, 115], gradients=False, looked=3, fed={})
    assert set(told(found(prefill, decode))) == {"call of decode", "call of prefill"}


def test_a_teacher_that_runs_in_each_step_is_a_part_of_it_and_an_evaluation_is_none() -> None:
    step = seen("Adam", [(n + 80, n + 90) for n in range(0, 800, 100)], "optimizer")
    teacher = seen("teacher", [(n + 5, n + 20) for n in range(0, 800, 100)], gradients=False)
    model = seen("model", [(n + 20, n + 60) for n in range(0, 800, 100)], gradients=True)
    evaluation = seen("model", [(391, 393), (394, 396), (397, 401)], gradients=False, line=9)
    choice = found(step, teacher, model, evaluation)
    assert told(choice) == {"step": ("Adam", 8), "call of model": ("model", 3)}
    assert choice.stories[0].steps[0] == (5, 90)
    assert choice.stories[0].steps[4] == (401, 490)


def test_calls_that_are_a_part_of_other_calls_are_no_candidates() -> None:
    outer = seen("outer", [(10, 20), (30, 40), (50, 60)], gradients=False)
    inner = seen("inner", [(12, 15), (32, 35), (52, 55)], gradients=False)
    assert told(found(outer, inner)) == {"call of outer": ("outer", 3)}


def test_a_step_skipped_by_a_gradient_scaler_is_one() -> None:
    update = seen("GradScaler.update", [20, 40, 60, 80, 100], "optimizer")
    assert told(found(seen("SGD", [10, 30, 70, 90], "optimizer"), update)) == {"step": ("GradScaler.update", 5)}


def test_the_most_trusted_kind_decides() -> None:
    rows = [
        seen("Adam", [10, 20, 30], "optimizer"),
        seen("transformers.Trainer", [(1, 11), (12, 21), (22, 31)], "trainer", name="step"),
        seen("transformers.Trainer", [(40, 44), (45, 49)], "trainer", name="validation"),
    ]
    assert set(told(found(*rows))) == {"step", "validation"}
    mark = seen("StepTraceAnnotation", [(0, 12), (12, 22)], "other_tool", name="train")
    assert told(found(*rows, mark)) == {"train": ("StepTraceAnnotation", 2)}
    assert told(found(*rows, mark, asked="optimizer")) == {"step": ("Adam", 3)}
    with pytest.raises(LookupError, match="seen: "):
        found(*rows, asked="nothing of the kind")


def test_the_blocks_of_a_mark_in_which_a_loop_only_looks_for_data_are_no_steps() -> None:
    blocks = [(n, n + 8) for n in (0, 10, 20, 30)]
    mark, calls = seen("StepTraceAnnotation", blocks, "other_tool", name="train"), seen("f", [7, 17, 27])
    assert told(found(mark, calls)) == {"train": ("StepTraceAnnotation", 3)}, "it finds no more"
    mark = seen("StepTraceAnnotation", blocks, "other_tool", name="train")
    assert [*found(mark, seen("f", [27, 37])).stories[0].steps] == blocks[2:], "it skips what it has trained on"
    for more, why in (
        ([seen("f", [7, 17, 27, 37])], "its call was seen"),
        ([seen("f", [7, 27])], "nor was that of another one"),
        ([seen("f", [7, 17, 27], tid=HOME + 1)], "the calls are another thread's"),
        ([], "no call was seen at all"),
    ):
        mark = seen("StepTraceAnnotation", blocks, "other_tool", name="train")
        assert told(found(mark, *more)) == {"train": ("StepTraceAnnotation", 4)}, why
    mark = seen("StepTraceAnnotation", blocks, "other_tool", name="train")
    failed = Made(HOME, 32, 36, is_users=True, is_backward=False)
    assert told(found(mark, seen("f", [7, 17, 27]), made=[failed])) == {"train": ("StepTraceAnnotation", 4)}


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "no call of a compiled function"),
        ([seen("evaluate", [10])], "evaluate was called 1 time"),
        ([seen("handle", [10, 20, 30, 40], loop=False)], "no loop"),
    ],
)
def test_where_nothing_can_be_shown_there_are_none_and_it_says_why(rows: list[Repeated], why: str) -> None:
    choice = found(*rows)
    assert not choice.stories
    assert why in str(choice.why)


def test_an_eager_first_step_begins_where_its_optimizer_was_made_or_an_evaluation_ended() -> None:
    made, adam = seen("Adam", [(20, 20)], "setup"), seen("Adam.step", [(90, 95), (190, 195)], "optimizer")
    assert [*found(made, adam).stories[0].steps] == [(20, 95), (95, 195)]
    evaluation = seen("model", [(30, 40)], gradients=False)
    assert [*found(made, adam, evaluation).stories[0].steps] == [(90, 95), (95, 195)]


def test_an_eager_first_step_begins_where_the_last_of_two_optimizers_was_made() -> None:
    made, adam = seen("Adam", [(20, 20), (40, 40)], "setup"), seen("Adam.step", [(90, 95), (190, 195)], "optimizer")
    assert [*found(made, adam).stories[0].steps] == [(40, 95), (95, 195)]


def test_a_backward_that_compiles_after_its_call_is_in_its_step_and_coldsteps_own_work_in_none() -> None:
    model = seen("model", [(10, 20), (60, 62), (80, 82)], gradients=True)
    made = [Made(HOME, 11, 19, True, False), Made(HOME, 25, 50, True, True), Made(HOME, 65, 70, False, False)]
    assert [*found(model, made=made).stories[0].steps] == [(10, 50), (50, 62), (70, 82)]


def test_what_is_written_of_calls_is_read_again() -> None:
    calls = [(100, 200), (0, 250), (300, 300)]
    assert list(read(Candidate.told(calls, 400), 400)) == [(100, 200), (250, 250), (300, 300)]
    with pytest.raises(ValueError, match="invalid literal"):
        list(read("12:x", 400))


# --- the frameworks -----------------------------------------------------------------------------------------------


def run(source: str, folder: Path, *options: str) -> str:
    """What a program prints under `coldstep run`; of what it says on stderr all but times and other numbers."""
    (folder / "train.py").write_text(textwrap.dedent(source))
    done = program.warm(program.stack_of(source), ["coldstep", "run", *options, "train.py"], folder)
    said = [re.sub(r"\d", "", line) for line in done.stderr.splitlines() if not line.startswith("coldstep: ")]
    return "\n".join([done.stdout, *said])


def line_of(source: str, word: str) -> int:
    return next(n for n, text in enumerate(textwrap.dedent(source).splitlines(), 1) if text.endswith(f"# {word}"))


def steps_of(trace: Trace) -> dict[str, int]:
    steps = [row.name or "" for row in trace.intervals if row.kind == "step"]
    return {name: steps.count(name) for name in dict.fromkeys(steps)}


JAX = """
    from concurrent.futures import ThreadPoolExecutor
    import jax, jax.numpy as jnp, numpy as np

    def loss(w, x):
        return jnp.mean((jnp.tanh(x @ w) - 1) ** 2)

    @jax.jit
    def update(w, x):
        return w - 0.1 * jax.grad(loss)(w, x)

    @jax.jit
    def evaluate(w, x):
        return loss(w, x)

    @jax.jit
    def log(x):
        return jnp.log(x)

    def handle(x):  # as a server would, of which each request is another call
        return log(x)

    def main():
        w = jnp.ones((32, 32))
        for epoch in range(3):
            for i in range(5):
                with jax.debug_nans(False):  # leaves this thread without the hook of all threads
                    w = w + 0
                w = update(w, np.full((8, 32), i, "float32"))  # update
            for i in range(4):
                evaluate(w, np.ones((8, 32), "float32"))  # evaluate
        print([round(float(x), 4) for x in w[0, :3]], update._cache_size())
        handle(1.0); handle(2.0); handle(3.0); handle(4.0)
        jax.config.update("jax_debug_nans", True)
        print("hidden from this thread", handle(-1.0))
        with ThreadPoolExecutor() as pool:
            print(repr(pool.submit(handle, -1.0).exception()))
            print(pool.submit(handle, 2.0).result())
        jax.config.update("jax_debug_nans", False)
        print(handle(-1.0))

    main()
"""


@pytest.fixture(scope="module")
def jax_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("jax")
    return folder, run(JAX, folder), run(JAX, folder, "--no-infer", "-o", "without.pftrace")


@pytest.fixture(scope="module")
def jax_trace(jax_runs: tuple[Path, str, str]) -> Trace:
    return coldstep.load(jax_runs[0] / "train.pftrace")


@pytest.mark.jax
def test_calls_of_a_jitted_function_are_steps(jax_trace: Trace) -> None:
    assert steps_of(jax_trace) == {"step": 15, "call of evaluate": 12}
    steps = [row for row in jax_trace.intervals if row.name == "step"]
    assert {(row.source, row.measures) for row in steps} == {("inferred", "dispatch")}
    by = steps[0].inferred_by
    assert by is not None
    assert (by.rule, by.of) == ("feedback", "update")
    assert by.location is not None
    assert (by.location.file.rpartition("/")[2], by.location.line) == ("train.py", line_of(JAX, "update"))
    settling = {row.name: (row.verdict, row.settled_at_step) for row in jax_trace.settling}
    assert settling == {"step": ("settled", 1), "call of evaluate": ("settled", 1)}
    [compiled] = [row for row in jax_trace.compiles if row.function == "update"]
    assert compiled.id in steps[0].compiles
    assert sum(row.wall_ns for row in jax_trace.intervals) == jax_trace.processes[0].wall_ns
    said = render(jax_trace)
    assert f"each call of update at train.py:{line_of(JAX, 'update')}, which trains, 15 of them" in said
    assert "log at train.py" in said, "what is no step is named"
    assert "call of evaluate: 12 calls, settled at call 1" in said


@pytest.mark.jax
def test_a_programs_own_check_for_nan_and_all_that_it_prints_stay(jax_runs: tuple[Path, str, str]) -> None:
    _, with_, without = jax_runs
    assert with_ == without
    assert "FloatingPointError" in with_


@pytest.mark.jax
def test_a_reader_may_choose_another_step_and_none_is_inferred_where_that_was_not_wanted(
    jax_runs: tuple[Path, str, str],
) -> None:
    folder = jax_runs[0]
    assert steps_of(coldstep.load(folder / "train.pftrace", step="evaluate")) == {
        "call of evaluate": 12,
        "call of update": 15,
    }
    with pytest.raises(TraceError, match=r"update at train\.py"):
        coldstep.load(folder / "train.pftrace", step="train.py:1")
    without = coldstep.load(folder / "without.pftrace")
    assert not steps_of(without)
    assert "steps" not in {row.name for row in without.collectors}
    assert "No step was marked. Mark them" in render(without)


@pytest.mark.jax
def test_a_budget_on_inferred_steps_says_so(jax_trace: Trace) -> None:
    verdict = judge([jax_trace], parse({"settle-by": "1"}))
    assert [(row.subject, row.verdict) for row in verdict.checks] == [("step", "within")]
    assert verdict.notes == [f"step is not marked but inferred, from update at train.py:{line_of(JAX, 'update')}"]


@pytest.mark.jax
def test_the_steps_are_drawn_when_the_trace_ends(jax_runs: tuple[Path, str, str], engine: ModuleType) -> None:
    [rows] = engine.query(
        jax_runs[0] / "train.pftrace",
        """select s.name from slice s join track t on t.id = s.track_id where t.name = 'Steps' order by s.ts""",
    )
    names = [row["name"] for row in rows]
    assert names[:2] == ["step 0 first", "step 1 clean"]
    assert len(names) == 27


@pytest.mark.jax
def test_the_ledger_is_drawn_by_step(jax_runs: tuple[Path, str, str], jax_trace: Trace, engine: ModuleType) -> None:
    [rows] = engine.query(
        jax_runs[0] / "train.pftrace",
        """select s.name, s.ts, s.ts + s.dur as end from slice s join track t on t.id = s.track_id
           where t.name = 'Step phases' and s.dur > 0""",
    )
    drawn = 0
    for interval in jax_trace.intervals:
        begin = jax_trace.origin_ns + interval.start_ns
        end = begin + interval.wall_ns
        mine = [row for row in rows if begin < row["end"] and row["ts"] < end]
        assert all(begin <= row["ts"] and row["end"] <= end for row in mine), interval
        phases = dict.fromkeys((row["name"] for row in mine), 0)
        for row in mine:
            phases[row["name"]] += row["end"] - row["ts"]
        unattributed = {UNATTRIBUTED: interval.unattributed_ns} if interval.unattributed_ns else {}
        assert phases == {name: ns for name, ns in interval.phases.items() if ns} | unattributed
        drawn += len(mine)
    assert drawn == len(rows)


TORCH = """
    import json, torch
    from torch._dynamo.utils import counters

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    compiled = torch.compile(model, backend=backend)

    def evaluate():
        with torch.no_grad():
            return [compiled(torch.ones(3, 4)).sum().item() for _ in range(4)]  # evaluate

    for epoch in range(2):
        for n in range(6):
            optimizer.zero_grad()
            loss = compiled(torch.ones(3, 4) * n).mean()
            loss.backward()
            optimizer.step()  # step
        evaluate()

    second = torch.optim.SGD(model.parameters(), momentum=0.9)
    step = torch.compile(second.step, backend=backend)
    for n in range(5):
        second.zero_grad()
        compiled(torch.ones(3, 4) * n).mean().backward()
        step()  # compiled

    @torch.compile(backend=backend)
    def whole(x):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()

    whole(torch.ones(3, 4))

    third = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend=backend)
    def several():
        optimizer.step()
        third.step()
        second.step()

    several()
    print(json.dumps([loss.item(), len(graphs), sum(counters["graph_break"].values())]))
"""


@pytest.mark.torch
def test_an_optimizers_steps_are_steps_compiled_or_not_and_change_nothing(tmp_path: Path) -> None:
    printed, *others = run(TORCH, tmp_path).splitlines()
    without, *others_without = run(TORCH, tmp_path, "--no-infer", "-o", "without.pftrace").splitlines()
    *same, breaks = json.loads(printed)
    *same_without, breaks_without = json.loads(without)
    assert (same, others) == (same_without, others_without)
    # on 3.13 PyTorch gives up the wrapper of a step that has a hook, anybody's: it skips fewer frames of it
    is_given_up = sys.version_info >= (3, 13)
    assert breaks == breaks_without or is_given_up
    trace, other = (coldstep.load(tmp_path / f"{name}.pftrace") for name in ("train", "without"))
    made = [
        [(row.function, row.outcome) for row in each.compiles if not (is_given_up and row.outcome == "skipped")]
        for each in (trace, other)
    ]
    assert made[0] == made[1]
    eager, compiled = (f"step at train.py:{line_of(TORCH, word)}" for word in ("step", "compiled"))
    assert steps_of(trace) == {eager: 12, "call of Sequential": 8, compiled: 5}
    rules = {row.name: row.inferred_by.rule for row in trace.intervals if row.inferred_by is not None}
    assert rules == {eager: "optimizer", compiled: "optimizer", "call of Sequential": "call"}
    first = next(row for row in trace.intervals if row.kind == "step")
    assert any(row.function.startswith("Sequential") for row in trace.compiles if row.id in first.compiles)


ANNOTATED = """
    import jax, jax.numpy as jnp
    from jax.profiler import StepTraceAnnotation

    @jax.jit
    def f(w, x):
        return w + x.sum()

    w, batches = jnp.ones(3), iter([jnp.ones(4)] * 6)
    for n in range(99):
        with StepTraceAnnotation("train", step_num=n):  # as Tunix has it: the block that finds no more data is one, too
            if (batch := next(batches, None)) is None:
                break
            w = f(w, batch)
    print(w)
"""


@pytest.mark.jax
def test_the_marks_of_another_tool_are_the_steps(tmp_path: Path) -> None:
    run(ANNOTATED, tmp_path)
    trace = coldstep.load(tmp_path / "train.pftrace")
    assert steps_of(trace) == {"train": 6}
    [first] = [row for row in trace.intervals if row.step == 0]
    assert first.inferred_by is not None
    assert (first.inferred_by.rule, first.inferred_by.of) == ("other_tool", "jax.profiler.StepTraceAnnotation")
    assert "f" in [row.function for row in trace.compiles if row.id in first.compiles]
    assert steps_of(coldstep.load(tmp_path / "train.pftrace", step="f")) == {"call of f": 6}


EAGER = """
    import torch

    def loss_of(model, scale=1.0):
        return (model(torch.ones(3, 4)) * scale).mean()

    model = torch.nn.Linear(4, 1)
    many = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure():
        many.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    with torch.profiler.profile() as profile:
        for n in range(4):
            many.step(closure)  # closure
            profile.step()  # profiled

    for epoch in range(2):
        each = torch.optim.SGD(model.parameters(), lr=0.1)
        for n in range(6):
            loss_of(model).backward()
            if n % 2:
                each.step()  # accumulated
                each.zero_grad()

    scaler = torch.amp.GradScaler("cpu")
    scaled = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(5):
        scaled.zero_grad()
        scaler.scale(loss_of(model, float("inf") if n == 2 else 1.0)).backward()
        scaler.step(scaled)
        scaler.update()  # scaled
"""


@pytest.mark.torch
def test_eager_steps_of_every_kind_of_optimizer(tmp_path: Path) -> None:
    """A closure that runs several times, gradients of several batches, an optimizer anew each epoch, a step that is
    skipped since its gradients overflowed."""
    run(EAGER, tmp_path)
    path = tmp_path / "train.pftrace"
    assert steps_of(coldstep.load(path)) == {"step": 4}
    expected = {"closure": 4, "accumulated": 6, "scaled": 5}
    assert steps_of(coldstep.load(path, step="optimizer")) == {
        f"step at train.py:{line_of(EAGER, word)}": steps for word, steps in expected.items()
    }


NO_STEPS = """
    import code, threading, urllib.request
    from http.server import BaseHTTPRequestHandler, HTTPServer
    import jax

    @jax.jit
    def answer(x):
        return x * 2

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(float(self.path[1:]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for n in range(6):
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{n}").read()
    server.shutdown()

    @jax.jit
    def evaluate(x):
        return x.sum()

    evaluate(jax.numpy.ones(3))

    lines = iter([f"answer({n}.0)" for n in range(5)])

    def line(prompt):
        try:
            return next(lines)
        except StopIteration:
            raise EOFError

    code.interact("", line, {"answer": answer}, "")
"""


@pytest.mark.jax
def test_requests_of_a_server_a_prompt_and_one_evaluation_are_no_steps(tmp_path: Path) -> None:
    run(NO_STEPS, tmp_path)
    trace = coldstep.load(tmp_path / "train.pftrace")
    assert not steps_of(trace)
    said = " ".join(render(trace).split())
    assert "No step was marked, and none inferred: answer was called 6 times" in said
    assert "run with --step __main__:" in said


SETTLES = """
    import time, jax, jax.numpy as jnp
    from jaxlib import _profiler

    @jax.jit
    def update(w):
        return w - 0.1 * jax.grad(lambda w: jnp.tanh(w @ w).sum())(w)

    w = jnp.ones((32, 32))
    def step():
        global w
        w = update(w)
        w.block_until_ready()
        time.sleep(0.01)

    records = lambda: "coldstep" in _profiler.ProfilerSession.__module__
    print(records())
    for n in range(2000):
        step()
        if not records():
            break
    for n in range(4):
        step()
    print(records())
"""


@pytest.mark.jax
def test_device_traces_of_steps_without_marks_end_when_the_program_has_settled(tmp_path: Path) -> None:
    assert run(SETTLES, tmp_path).split()[:2] == ["True", "False"]
    trace = coldstep.load(tmp_path / "train.pftrace")
    steps = [row for row in trace.intervals if row.kind == "step"]
    executed = ["execute" in row.phases for row in steps]
    # what a call hands over is run until the next one ends; where one session ends and the next begins, none records
    assert any(executed[1:4])
    assert executed[-3:] == [False, False, False]
    assert trace.device_traces[0, "xspace"].slices
    assert "xla.pass" in {phase.rpartition(".")[0] for phase in steps[0].inside}
    assert not trace.run.notes


SETTLES_IN_TORCH = """
    import json, time, torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend="aot_eager")
    losses = []

    def step(size):
        loss = compiled(torch.arange(8.0 * size).reshape(size, 8) / 50).square().sum()
        loss.backward()
        recorded = torch.autograd.profiler._is_profiler_enabled  # after the update, it may be between two sessions
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        return recorded

    for size in (4, 5, 5):  # the second is compiled anew
        recorded = step(size)
    records = [recorded]
    for n in range(2000):
        if not step(5):
            break
        time.sleep(0.01)
    for n in range(4):
        recorded = step(5)
    records.append(recorded)
    print(json.dumps([losses[:8], records]))
"""


@pytest.fixture(scope="module")
def settled_in_torch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[bool]]]:
    """A program whose operators are recorded until it has settled, and what it found out about that."""
    folder = tmp_path_factory.mktemp("settles")
    (losses, records), (same, never) = (
        json.loads(run(SETTLES_IN_TORCH, folder, *options).splitlines()[0])
        for options in ([], ["--device", "off", "-o", "without.pftrace"])
    )
    assert losses == same
    return folder / "train.pftrace", [records, never]


@pytest.mark.torch
def test_operators_of_steps_without_marks_are_recorded_until_the_program_has_settled(
    settled_in_torch: tuple[Path, list[list[bool]]], engine: ModuleType
) -> None:
    path, records = settled_in_torch
    assert records == [[True, False], [False, False]]
    trace = coldstep.load(path)
    assert not any("evice trace" in note for note in trace.run.notes)
    steps = [row for row in trace.intervals if row.kind == "step"]
    executed = ["execute" in row.phases for row in steps]
    assert executed[:3] == [True] * 3
    assert executed[-3:] == [False] * 3
    [rows] = engine.query(path, "select min(ts) as first from slice where name = 'aten::addmm'")
    begin = trace.origin_ns + steps[0].start_ns
    assert begin < rows[0]["first"] < begin + steps[0].wall_ns, "from the first step on"


@pytest.mark.torch
def test_pytorchs_profiler_runs_on_the_programs_own_thread_and_no_session_begins_or_ends_in_a_compile(
    settled_in_torch: tuple[Path, list[list[bool]]], engine: ModuleType
) -> None:
    slices = "select s.ts, s.ts + s.dur as end, t.name as track from slice s join track t on s.track_id = t.id"
    [sessions, compiles] = engine.query(
        settled_in_torch[0],
        f"{slices} where s.name = 'device trace' and s.dur > 0",
        f"{slices} where s.category = 'compile'",
    )
    assert len(sessions) >= 2
    assert len(compiles) >= 2
    assert {row["track"] for row in sessions} == {"coldstep"}, "that of the program's own thread"
    for session in sessions:
        assert not any(row["ts"] < session["end"] and session["ts"] < row["end"] for row in compiles)


OWN_SESSION = """
    import jax, jax.numpy as jnp
    from jaxlib import _profiler

    @jax.jit
    def update(w):
        return w - 0.1 * jax.grad(lambda w: jnp.tanh(w @ w).sum())(w)

    w = jnp.ones((32, 32))
    for n in range(8):
        if n == 2:
            own = _profiler.ProfilerSession(_profiler.ProfileOptions())
        w = update(w).block_until_ready()
    print(own.stop().count(b"ThunkExecutor::Execute") > 0)
"""


@pytest.mark.jax
def test_a_profiler_of_the_programs_own_goes_before_ours_where_steps_are_inferred(tmp_path: Path) -> None:
    assert run(OWN_SESSION, tmp_path).split()[0] == "True"
    trace = coldstep.load(tmp_path / "train.pftrace")
    [note] = trace.run.notes
    assert "ended as the program began" in note
    steps = [row for row in trace.intervals if row.kind == "step"]
    executed = ["execute" in row.phases for row in steps[1:]]
    assert any(executed[:2])
    assert not any(executed[2:])


KILLED = """
    import pathlib, time, jax
    update = jax.jit(lambda w: w * 2)

    def train():
        w = 1.0
        for n in range(5):
            w = update(w)
        time.sleep(0.6)  # the drain comes every quarter of a second
        pathlib.Path("ready").touch()
        time.sleep(100)

    train()
"""


@pytest.mark.jax
def test_the_steps_of_a_killed_run_are_found_by_whoever_reads_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(KILLED))
    with subprocess.Popen([sys.executable, "-m", "coldstep", "run", "train.py"], cwd=tmp_path) as process:
        while not (tmp_path / "ready").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    trace = coldstep.load(tmp_path / "train.pftrace")
    assert trace.run.ended == "killed"
    assert steps_of(trace) == {"call of <lambda>": 5}


ON_A_THREAD = """
    import sys, threading, jax, jax.numpy as jnp

    sys.path.insert(0, ".")

    @jax.jit
    def update(w):
        return w - 0.1 * jax.grad(lambda w: jnp.tanh(w @ w).sum())(w)

    def train():
        w = jnp.ones((8, 8))
        for n in range(6):
            if n == 3:
                import slow
            w = update(w)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
"""


@pytest.mark.jax
def test_steps_of_another_thread_have_that_threads_time(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(0.3)")
    run(ON_A_THREAD, tmp_path)
    trace = coldstep.load(tmp_path / "train.pftrace")
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert len(steps) == 6
    assert steps[3].phases["import.slow"] >= 300_000_000
    assert {"jax.trace", "xla.compile"} <= set(steps[0].phases)
    assert sum(row.wall_ns for row in trace.intervals) == trace.processes[0].wall_ns
    assert all(sum(row.phases.values()) + row.unattributed_ns == row.wall_ns for row in trace.intervals)


KERAS = """
    import os
    os.environ["KERAS_BACKEND"] = "jax"
    import jax, keras, numpy as np

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x, y = np.ones((70, 4), "float32"), np.ones((70, 1), "float32")
    model.fit(x, y, batch_size=16, epochs=2, validation_data=(x[:32], y[:32]), verbose=0)  # fit
    model.predict(x[:48], batch_size=16, verbose=0)
"""


@pytest.mark.jax
def test_batches_of_a_trainer_are_steps_and_validation_and_prediction_are_told_apart(tmp_path: Path) -> None:
    run(KERAS, tmp_path)
    trace = coldstep.load(tmp_path / "train.pftrace")
    assert steps_of(trace) == {"step": 10, "validation": 4, "prediction": 3}
    by = next(row.inferred_by for row in trace.intervals if row.inferred_by is not None)
    assert (by.rule, by.of) == ("trainer", "keras.Model")
    assert by.location is not None
    assert by.location.line == line_of(KERAS, "fit")
    recompiled = [row.step for row in trace.recompiles]
    assert recompiled == [4], "the last batch of the first epoch is smaller"


MARKED = """
    import coldstep, jax
    from jax._src import api, config, pjit

    update = jax.jit(lambda w: w * 2)
    hooks = lambda: (api._post_hook_state.get_global(), config.debug_nans._update_thread_local_hook.__module__,
                     pjit._get_fastpath_data.__module__)
    w = 1.0
    for n in range(3):
        w = update(w)
    print(hooks()[0] is not None)
    for n in range(2):
        with coldstep.step():
            w = update(w)
    print(*hooks())
"""


@pytest.mark.jax
def test_the_first_mark_ends_all_that_infers(tmp_path: Path) -> None:
    assert run(MARKED, tmp_path).splitlines()[:2] == ["True", "None jax._src.api jax._src.pjit"]
    assert steps_of(coldstep.load(tmp_path / "train.pftrace")) == {"step": 2}


MARKED_IN_TORCH = """
    import coldstep, torch

    compiled = torch.compile(lambda x: x + 1, backend="eager")
    [context] = [each.cell_contents for each in compiled.__closure__
                 if type(each.cell_contents).__name__ == "OptimizeContext"]
    ours = lambda: sum("coldstep" in getattr(hook, "func", hook).__module__ for hook in context.enter_exit_hooks)
    compiled(torch.ones(2))
    print(ours())
    with coldstep.step():
        compiled(torch.ones(2))
    print(ours())
"""


@pytest.mark.torch
def test_the_first_mark_frees_what_torch_compile_has_returned(tmp_path: Path) -> None:
    assert run(MARKED_IN_TORCH, tmp_path).splitlines()[:2] == ["1", "0"]


class _Proxy(dict[str, object]):
    """What a frame's local variables are since Python 3.13: of its keys there is a list."""

    def keys(self) -> Any:
        return list(self)


def _frame(**variables: object) -> Any:
    return SimpleNamespace(f_locals=_Proxy(variables))


def test_a_slow_call_of_jaxs_is_read_from_a_frame_of_python_3_13() -> None:
    from coldstep_collectors.jax._private.calls import called

    assert called(_frame(fun=len, args=(1,), kwargs={}, outs=2, jaxpr=None)) == (len, (1,), {}, 2)
    assert called(_frame(fun=len)) is None


@pytest.mark.torch
@pytest.mark.parametrize(("last", "of"), [("optimizer.step()", "torch.optim.SGD.step"), ("", "Linear")])
def test_a_block_without_marks_has_steps_of_what_was_compiled_before_it(last: str, of: str, tmp_path: Path) -> None:
    source = f"""
import torch
import coldstep

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters())
compiled = torch.compile(model, backend="eager")

def train(x):
    optimizer.zero_grad()
    compiled(x).sum().backward()
    {last}

train(torch.ones(2, 4))
for _ in range(2):
    with coldstep.trace("t.pftrace", device="off", live=False):
        for rows in (2, 2, 2, 3, 2):
            train(torch.ones(rows, 4))
"""
    program.run(source, tmp_path, stack="torch")
    trace = coldstep.load(tmp_path / "t.pftrace")
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert [row.label for row in steps] == ["first"] + ["steady"] * 4
    assert {row.inferred_by.of for row in steps if row.inferred_by} == {of}
