"""torch_xla: why PyTorch needs a second step on it, on a small GPT-2; and what its syncs and compiles are made of."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import ModuleType

import program
import pytest

import coldstep
from coldstep.model import Recompile, Settling, Trace

pytestmark = pytest.mark.torch_xla

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    "PJRT_DEVICE": "CPU",
    "PYTHONPATH": str(ROOT / "tests"),
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}

RUNNING = """\
import torch
import torch_xla

import coldstep

x, scale = torch.ones(3, device="xla"), 2.5
with coldstep.trace("main.pftrace", live=False) as run, coldstep.step():
    y = x * scale
    torch_xla.sync()
"""
GPT = """
    import torch
    import torch_xla

    import coldstep
    from two_models import models_torch as models
    from two_models.sizes import GPT

    size = GPT(vocabulary=64, length=16, width=32, heads=2, layers=1)
    device = torch_xla.device()


    def tokens(sequences, **where):  # as many as no other loop has, whose graphs would be this one's, compiled
        return torch.randint(size.vocabulary, (sequences, size.length + 1), **where)


    def train(name, sync, batch, optimizer_of, prepare):
        model = models.GPTModel(size).to(device)
        optimizer = optimizer_of(model.parameters(), lr=0.01)
        prepare(model, optimizer)
        for _ in range(6):  # what is compiled after the last one counts for it
            with coldstep.step(name):
                optimizer.zero_grad()
                loss = models.gpt_loss(model, batch)
                loss.backward()
                optimizer.step()
                sync()
                coldstep.wait(loss)


    def only_sync(model, optimizer):
        torch_xla.sync()


    def with_state(model, optimizer):
        for p in model.parameters():
            state = {key: torch.zeros_like(p) for key in ("exp_avg", "exp_avg_sq")}
            optimizer.state[p] = {**state, "step": torch.tensor(0.0)}
        torch_xla.sync()


    def momentum(parameters, lr):
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


    with coldstep.trace("gpt.pftrace"):
        adamw = torch.optim.AdamW
        train("adamw", lambda: torch_xla.sync(), {"tokens": tokens(1).to(device)}, adamw, only_sync)
        train("advised", lambda: torch_xla.sync(), {"tokens": tokens(2).to(device)}, adamw, with_state)
        train("momentum", lambda: torch_xla.sync(), {"tokens": tokens(3).to(device)}, momentum, only_sync)
        train("sgd", lambda: torch_xla.sync(), {"tokens": tokens(4).to(device)}, torch.optim.SGD, only_sync)
        on_device = tokens(5, device=device)
        nothing = lambda model, optimizer: None
        train("pending", lambda: torch_xla.sync(), {"tokens": on_device}, torch.optim.SGD, nothing)
"""


@pytest.fixture(scope="module")
def gpt_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    program.run(GPT, folder, env=ENVIRONMENT, stack="torch_xla")
    return folder / "gpt.pftrace"


UNMARKED = """
    import time

    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch_xla.distributed.parallel_loader import MpDeviceLoader

    import coldstep

    device = torch_xla.device()
    model = torch.nn.Linear(4, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


    def train(batch):
        optimizer.zero_grad()
        loss = model(batch).pow(2).sum()
        loss.backward()
        return loss


    def whole(batch):
        loss = train(batch)
        optimizer.step()
        return loss


    def rows(count):  # each loop has its own, and so a graph of its own
        return torch.ones(count, 4).to(device)


    print(torch.ones(1))  # imports what prints
    with coldstep.trace("unmarked.pftrace"):
        torch_xla.sync()  # sets up
        time.sleep(0.8)  # of so long a session of the profiler's, the end and the next one's begin come at a boundary
        for _ in range(3):
            whole(rows(2))
            torch_xla.sync()  # sync
        for _ in range(2):
            whole(rows(3))
            xm.mark_step()  # mark_step
        for _ in range(2):
            train(rows(4))
            xm.optimizer_step(optimizer, barrier=True)  # optimizer_step
        for _ in range(2):
            with torch_xla.step():  # step
                whole(rows(5))
        compiled = torch_xla.compile(whole)
        for _ in range(2):
            compiled(rows(6))
        for batch in MpDeviceLoader([torch.ones(7, 4)] * 2, device):  # loader
            whole(batch)
        loss = train(rows(8))
        loss.item()  # item
        float((loss * 0.5).cos())  # float
        print((loss * 0.25).sin())  # print
        torch_xla.sync()
        (model(rows(9)).detach() > 9).nonzero()  # fallback
        torch_xla.sync()
        for count in (10, 11):
            model(rows(count)).detach().sum().item()  # last
"""


@pytest.fixture(scope="module")
def unmarked_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unmarked")
    program.run(UNMARKED, folder, env=ENVIRONMENT, stack="torch_xla")
    return folder / "unmarked.pftrace"


@pytest.fixture(scope="module")
def unmarked(unmarked_path: Path) -> Trace:
    return coldstep.load(unmarked_path)


def line_of(word: str) -> int:
    """The line of the program whose comment is `word`."""
    return next(number for number, text in enumerate(UNMARKED.splitlines(), 1) if text.endswith(f"# {word}"))


def test_without_marks_the_syncs_are_the_steps(unmarked: Trace) -> None:
    steps = [row for row in unmarked.intervals if row.kind == "step"]
    assert {row.source for row in steps} == {"inferred"}
    compiling = [row for row in steps if row.compiles]
    assert len(steps) - len(compiling) >= 5  # each way's second sync has found its graph compiled
    assert any(name.startswith("xla.pass.") for name in compiling[0].inside), "device traces begin with them, too"


def test_the_profiler_begins_and_ends_between_such_steps(unmarked_path: Path, engine: ModuleType) -> None:
    [rows] = engine.query(
        unmarked_path,
        """select exists (select * from slice step join track s on s.id = step.track_id where s.name = 'Steps'
            and ours.ts < step.ts + step.dur and ours.ts + ours.dur > step.ts) as inside
           from slice ours join track o on o.id = ours.track_id
           where o.name = 'coldstep' and ours.name = 'device trace' and ours.dur > 0
            and ours.ts < (select ts from slice where name = 'step 3 compiled')""",
    )
    assert len(rows) >= 3  # its begin; the end of a session and the next one's begin; its end, once that has settled
    assert not any(row["inside"] for row in rows)


@pytest.mark.parametrize("way", ["sync", "mark_step", "optimizer_step", "step", "loader"])
def test_every_way_to_mark_a_step_is_seen_at_the_users_line(unmarked: Trace, way: str) -> None:
    compiles = [row for row in unmarked.compiles if row.location is not None and row.location.line == line_of(way)]
    assert [row.outcome for row in compiles] == ["compiled"]
    assert compiles[0].location is not None
    assert compiles[0].location.file.endswith("program.py")


def test_a_compiled_function_is_seen_by_its_name(unmarked: Trace) -> None:
    [row] = [row for row in unmarked.compiles if row.function == "whole"]
    assert {each.argument for each in row.inputs} >= {"model.weight", "model.bias"}


@pytest.mark.parametrize(
    ("what", "kind"),
    [("item", "host_read"), ("float", "host_read"), ("print", "host_read"), ("fallback", "unsupported_call")],
)
def test_what_cuts_a_graph_is_told_with_the_users_line(unmarked: Trace, what: str, kind: str) -> None:
    [row] = [row for row in unmarked.graph_breaks if row.location is not None and row.location.line == line_of(what)]
    assert row.kind == kind
    [compile_] = [each for each in unmarked.compiles if each.id == row.compile]
    assert compile_.wall_ns > 0


def test_what_is_read_after_the_last_sync_is_seen_too(unmarked: Trace) -> None:
    reads = [row for row in unmarked.compiles if row.location is not None and row.location.line == line_of("last")]
    assert [row.reason for row in reads] == ["first", "recompile"]
    [row] = [row for row in unmarked.recompiles if row.compile == reads[1].id]
    assert row.cause != "host_read", "nothing was left pending by the read before: as many operations"


@pytest.fixture(scope="module")
def gpt(gpt_path: Path) -> Trace:
    return coldstep.load(gpt_path)


def settling(trace: Trace, name: str) -> Settling:
    return next(row for row in trace.settling if row.name == name)


def recompiles(trace: Trace, name: str) -> list[Recompile]:
    names = {row.index: row.name for row in trace.intervals}
    return [row for row in trace.recompiles if names[row.interval] == name]


@pytest.mark.parametrize(("name", "keys"), [("adamw", ("exp_avg", "exp_avg_sq")), ("momentum", ("momentum_buffer",))])
def test_a_new_optimizers_state_makes_the_second_step_compile(gpt: Trace, name: str, keys: tuple[str, ...]) -> None:
    row = settling(gpt, name)
    assert (row.verdict, row.settled_at_step) == ("settled", 2)
    [cause] = row.causes
    assert (cause.step, cause.cause) == (1, "optimizer_state")
    [recompile] = recompiles(gpt, name)
    assert (recompile.argument, recompile.before, recompile.confidence) == ("optimizer.state", "{}", "proven")
    told = "\n".join(recompile.evidence)
    tensors = 16 * len(keys)  # 16 parameters in a GPT-2 of one block
    assert f"new inputs: {tensors} tensors of optimizer state, of 16 parameters, {len(keys) * 61_312:,} bytes" in told
    for key in keys:
        assert f"'{key}' of model.token.weight f32[64,32], " in told
        assert "model.blocks.0.qkv.weight f32[96,32]" in told
    before, after = (int(count) for count in recompile.evidence[0].removeprefix("graph inputs: ").split(" → "))
    assert after - before >= tensors  # and the momentum itself, a number
    assert all(key in recompile.advice for key in keys)


@pytest.mark.parametrize("name", ["advised", "sgd"])
def test_with_its_state_made_before_or_none_it_settles_at_step_1(gpt: Trace, name: str) -> None:
    row = settling(gpt, name)
    assert (row.verdict, row.settled_at_step, row.causes) == ("settled", 1, [])


def test_a_batch_made_on_the_device_and_not_synced_is_computed_by_the_first_step(gpt: Trace) -> None:
    row = settling(gpt, "pending")
    assert row.settled_at_step == 2
    [cause] = row.causes
    assert (cause.step, cause.cause) == (1, "pending_setup")
    [recompile] = recompiles(gpt, "pending")
    assert (recompile.argument, recompile.confidence) == ("on_device", "proven")


@pytest.mark.timing
def test_the_running_trace_is_no_number_of_the_programs(tmp_path: Path) -> None:
    """A variable holds it, and in it much counts."""
    program.run(RUNNING, tmp_path, env=ENVIRONMENT, stack="torch_xla")
    trace = coldstep.load(tmp_path / "main.pftrace")
    said = [key for row in trace.compiles for key in trace.details[row.id].signature.context]
    assert any("scale" in key for key in said)
    assert not [key for key in said if "run." in key]


@pytest.mark.timing
def test_on_a_busy_machine_too_a_sync_that_lasts_while_its_graph_runs_is_execution(tmp_path: Path) -> None:
    source = """
        import torch
        import torch_xla

        import coldstep

        device = torch_xla.device()
        model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)]).to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.ones(512, 1024, device=device)
        torch_xla.sync()
        with coldstep.trace("sync.pftrace"):
            for _ in range(10):
                with coldstep.step():
                    optimizer.zero_grad()
                    loss = model(x).sum()
                    loss.backward()
                    optimizer.step()
                    torch_xla.sync()
                    coldstep.wait(loss)
    """
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        program.run(source, tmp_path, env=ENVIRONMENT | {"XLA_FLAGS": ""}, stack="torch_xla")
    finally:
        for each in busy:
            each.kill()
            each.wait()
    steady = [row for row in coldstep.load(tmp_path / "sync.pftrace").intervals if row.kind == "step"][2:]
    lowering = sorted(row.phases.get("torch_xla.lower", 0) / row.wall_ns for row in steady)
    executing = sorted(row.phases.get("execute", 0) / row.wall_ns for row in steady)
    assert lowering[-3] < 0.07  # of eight, all but two
    assert executing[2] > 0.5


def test_what_ran_before_a_sync_is_waited_for_as_execution_and_not_as_coldsteps(tmp_path: Path) -> None:
    source = """
        import torch
        import torch_xla

        import coldstep

        x = torch.ones(2048, 2048, device=torch_xla.device())
        torch_xla.sync()
        with coldstep.trace("sync.pftrace"):
            with coldstep.step():
                y = x
                for _ in range(12):
                    y = y @ x
                torch_xla.sync()  # which returns while they are multiplied
                z = x + 1
                torch_xla.sync()
                coldstep.wait(z)
    """
    program.run(source, tmp_path, env=ENVIRONMENT | {"XLA_FLAGS": ""}, stack="torch_xla")
    [step] = [row for row in coldstep.load(tmp_path / "sync.pftrace").intervals if row.kind == "step"]
    assert step.phases["execute"] > 5 * step.phases.get("coldstep", 0)


def test_steps_that_compile_are_attributed(gpt: Trace) -> None:
    steps = [row for row in gpt.intervals if row.kind == "step" and row.name == "adamw" and row.step in (0, 1)]
    compiling = [row for row in gpt.intervals if row.label in ("first", "settling")]
    # the median, for any one may wait for a busy processor where nothing is named
    assert median(row.unattributed_ns / row.wall_ns for row in compiling) < 0.04
    for step in steps:
        assert step.phases["torch_xla.compile"] > 0.5 * step.wall_ns
        assert step.phases["torch_xla.lower"] > 0
    assert steps[0].phases["torch_xla.trace"] > 0


@pytest.mark.timing
def test_what_xla_does_inside_lies_in_the_compile_that_it_does_it_for(
    gpt_path: Path, gpt: Trace, engine: ModuleType
) -> None:
    compiles, inside = engine.query(
        gpt_path,
        """select s.ts, s.ts + s.dur as end, a.string_value as compile
           from slice s join slice p on p.id = s.parent_id
           join args a on a.arg_set_id = p.arg_set_id and a.key = 'debug.compile' where s.name = 'torch_xla.compile'""",
        """select s.ts, s.ts + s.dur as end, a.string_value as compile
           from slice s join args a on a.arg_set_id = s.arg_set_id and a.key = 'debug.compile'
           where s.name = 'PjRtComputationClient::Compile'""",
    )
    bound = gpt.device_traces[0, "xspace"].clock_bound_ns
    assert 0 < bound < 1_000_000
    # the phase is known from stamps of torch_xla's, which are seconds since 1970 in a float
    bound += gpt.device_traces[0, "torch_xla"].clock_bound_ns + 1_000
    of = {row["compile"]: row for row in compiles}
    for row in inside:
        phase = of[row["compile"]]
        assert phase["ts"] - bound <= row["ts"] <= row["end"] <= phase["end"] + bound
    recorded = [row for row in gpt.intervals if row.kind == "step" and (row.step or 0) < 2 and row.compiles]
    assert sorted(row["compile"] for row in inside) == sorted(id_ for row in recorded for id_ in row.compiles)
    for interval in recorded:
        assert interval.inside["xla.codegen"] > 0
        assert any(name.startswith("xla.pass.") for name in interval.inside)


def test_each_one_line_change_makes_its_loop_settle_a_step_earlier(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "settling.py"), "-o", str(tmp_path / "settling.pftrace")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, *rows = done.stdout.splitlines()
    causes = ["committed", "weak_type", "dtype", "type", "shape", "python_scalar"]
    causes += ["pending_setup", "optimizer_state", "gradient_state", "baked_constant"]
    assert [row[15:32].strip() for row in rows] == causes
    assert all(row[32:].startswith("2; 1 with ") for row in rows)


def test_the_cuda_graphs_of_this_pytorch_are_found() -> None:
    importlib.import_module("torch._inductor.cudagraph_trees")  # a hook is looked for once its module is there

    from coldstep_collectors.torch._private import cuda_graphs

    patches = cuda_graphs.watch(lambda *_: None, lambda _: None)
    assert patches
    assert [patch.undo() for patch in patches] == [None] * len(patches)
