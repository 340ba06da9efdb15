"""Why a step compiles a second time: a transformer in JAX, of which only the batch is pinned to its device."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep
from coldstep.model import Recompile, Settling, Trace
from coldstep_viewers.report.terminal import render

pytestmark = pytest.mark.jax

ROOT = Path(__file__).parents[3]
GPT = """
    from functools import partial

    import jax

    import coldstep
    from two_models import models_jax as models
    from two_models.sizes import GPT
    from two_models.train_jax import gpt_step, optimizer

    size = GPT(vocabulary=64, length=16, width=32, heads=2, layers=1)
    device = jax.devices()[0]


    def train(name, sequences, advised):
        params = models.gpt_init(jax.random.key(0), size)
        state = optimizer.init(params)
        if advised:
            params, state = jax.device_put((params, state), device)
        tokens = jax.random.randint(jax.random.key(1), (sequences, size.length + 1), 0, size.vocabulary)
        batch = jax.device_put({"tokens": tokens}, device)
        for _ in range(5):
            with coldstep.step(name):
                params, state, loss = coldstep.wait(gpt_step(params, state, batch, heads=size.heads))


    with coldstep.trace("gpt.pftrace"):
        train("plain", 2, advised=False)
        train("advised", 3, advised=True)
"""


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("gpt")
    program.run(GPT, folder, env={"PYTHONPATH": str(ROOT / "tests")}, stack="jax")
    return coldstep.load(folder / "gpt.pftrace")


def settling(trace: Trace, name: str) -> Settling:
    return next(row for row in trace.settling if row.name == name)


def recompile_of(trace: Trace, compile_id: str | None) -> Recompile:
    return next(row for row in trace.recompiles if row.compile == compile_id)


def test_a_pinned_batch_makes_all_compile_again(gpt: Trace) -> None:
    row = settling(gpt, "plain")
    assert (row.verdict, row.settled_at_step) == ("settled", 2)
    [cause] = row.causes
    assert (cause.step, cause.cause) == (1, "committed")
    recompile = recompile_of(gpt, cause.compile)
    assert recompile.confidence == "proven"
    assert recompile.argument is not None
    assert recompile.argument.startswith(("params[", "state["))
    assert recompile.after == f"{recompile.before} committed"
    assert not any(
        "jax.trace" in segment.phases for row in gpt.compiles if row.id == cause.compile for segment in row.segments
    )
    assert "jax.device_put((params, state), device)" in cause.advice


def test_the_advice_makes_it_settle_at_step_1(gpt: Trace) -> None:
    row = settling(gpt, "advised")
    assert (row.verdict, row.settled_at_step, row.causes) == ("settled", 1, [])


def test_the_report_tells_why_under_the_steps(gpt: Trace) -> None:
    steps = " ".join(render(gpt, every=True).partition("\nSteps\n")[2].partition("\nRecompiles")[0].split())
    told = settling(gpt, "plain").causes[0].text
    assert f"compiled after step 0: {told}" in steps
    assert steps.count("compiled after step 0:") == 1
