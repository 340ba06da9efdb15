"""torch_xla: why PyTorch needs a second step on it, on a small GPT-2; and what its syncs and compiles are made of."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep
from coldstep.model import Recompile, Settling, Trace

pytestmark = pytest.mark.torch_xla

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {"PJRT_DEVICE": "CPU", "PYTHONPATH": str(ROOT)}

GPT = """
    import torch
    import torch_xla

    import coldstep
    from examples.stack_wars import models_torch as models
    from examples.stack_wars.sizes import GPT

    size = GPT(vocabulary=64, length=16, width=32, heads=2, layers=1)
    device = torch_xla.device()


    def tokens(sequences, **where):  # as many as no other loop has, whose graphs would be this one's, compiled
        return torch.randint(size.vocabulary, (sequences, size.length + 1), **where)


    def train(name, sync, batch, optimizer_of, prepare):
        model = models.GPTModel(size).to(device)
        optimizer = optimizer_of(model.parameters(), lr=0.01)
        prepare(model, optimizer)
        for _ in range(5):
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
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("gpt")
    program.run(GPT, folder, env=ENVIRONMENT)
    return coldstep.load(folder / "gpt.pftrace")


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


def test_steps_that_compile_are_attributed(gpt: Trace) -> None:
    steps = [row for row in gpt.intervals if row.kind == "step" and row.name == "adamw" and row.step in (0, 1)]
    for step in steps:
        assert step.unattributed_ns < 0.05 * step.wall_ns
        assert step.phases["torch_xla.compile"] > 0.5 * step.wall_ns
        assert step.phases["torch_xla.lower"] > 0
    assert steps[0].phases["torch_xla.trace"] > 0
