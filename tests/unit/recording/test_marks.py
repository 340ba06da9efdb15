"""Marks inside compiled code change neither what compiles nor where graphs break; no trace, no difference."""

from __future__ import annotations

import json
from pathlib import Path

import program
import pytest

import coldstep

TRAIN = """
import contextlib, json, sys
import torch, torch._dynamo
from torch._dynamo.utils import counters, get_compilation_metrics, guard_failures, set_compilation_metrics_limit
import coldstep

def counted(marked, traced):
    # compiles, graph breaks and losses of a train step whose backward and optimizer break the graph in the block
    torch.manual_seed(0)
    torch._dynamo.reset()
    counters.clear()
    set_compilation_metrics_limit(1000)
    before = len(get_compilation_metrics())
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    if marked:
        def train(x):
            with coldstep.step("train"):
                loss = model(x).square().mean()
                with coldstep.annotate("backward"):
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                return coldstep.wait(loss)
    else:
        def train(x):
            with contextlib.nullcontext():
                loss = model(x).square().mean()
                with contextlib.nullcontext():
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                return loss
    compiled = torch.compile(train, backend="eager")
    losses = []
    for turn in range(6):
        active = coldstep.trace("t.pftrace") if traced and turn in (2, 4) else contextlib.nullcontext()
        with active:
            losses.append(compiled(torch.ones(2, 4)).item())
    frames = dict(counters["frames"])
    return len(get_compilation_metrics()) - before, sum(counters["graph_break"].values()), frames, losses

for marked, traced in ((False, False), (True, False), (True, True), (False, True)):
    print(json.dumps(counted(marked, traced)))
"""


@pytest.mark.torch
def test_a_compiled_train_step_that_breaks_inside_the_block_compiles_as_it_did(tmp_path: Path) -> None:
    plain, *others = map(json.loads, program.run(TRAIN, tmp_path, stack="torch").stdout.splitlines())
    assert plain[0] > 1
    assert plain[1] > 0
    assert others == [plain] * 3


@pytest.mark.torch
def test_marks_pass_fullgraph_and_no_trace_that_comes_or_goes_recompiles(tmp_path: Path) -> None:
    done = program.run(
        """
        import torch
        import coldstep
        from torch._dynamo.utils import get_compilation_metrics

        def marked(xs):
            total = 0
            for x in coldstep.steps(xs, name="inner"):
                with coldstep.step("train"), coldstep.annotate("forward"):
                    total = total + coldstep.wait(x * 2)
            return total

        compiled = torch.compile(marked, backend="eager", fullgraph=True)
        xs = [torch.ones(3)] * 3
        compiled(xs)
        for name in ("a", "b"):
            with coldstep.trace(name + ".pftrace"):
                with coldstep.step("outer"):
                    compiled(xs)
                compiled(xs)
        compiled(xs)
        print([metrics.compile_id for metrics in get_compilation_metrics()])
        """,
        tmp_path,
        stack="torch",
    )
    assert done.stdout.strip() == "['0/0']"
    trace = coldstep.load(tmp_path / "a.pftrace")
    assert [i.name for i in trace.intervals if i.kind == "step"] == ["outer"]
    assert trace.run.notes == []


@pytest.mark.jax
def test_marks_inside_jit_vmap_and_grad_record_nothing_and_change_nothing(tmp_path: Path) -> None:
    done = program.run(
        """
        import jax, jax.numpy as jnp
        import coldstep

        def marked(x):
            with coldstep.step("inside"), coldstep.annotate("inside"):
                return coldstep.wait((x * 2).sum())

        def plain(x):
            return (x * 2).sum()

        x = jnp.arange(6.0).reshape(2, 3)
        before = str(jax.make_jaxpr(marked)(x))
        with coldstep.trace("t.pftrace"):
            assert str(jax.make_jaxpr(marked)(x)) == before == str(jax.make_jaxpr(plain)(x))
            f = jax.jit(marked)
            with coldstep.step("outside"):
                assert f(x) == plain(x)
                assert (jax.vmap(marked)(x) == jax.vmap(plain)(x)).all()
                assert (jax.grad(marked)(x) == jax.grad(plain)(x)).all()
            with coldstep.step("outside"):
                f(x)
            print(f._cache_size())
        """,
        tmp_path,
        stack="jax",
    )
    assert done.stdout.strip() == "1"
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert [(i.name, i.step) for i in trace.intervals if i.kind == "step"] == [("outside", 0), ("outside", 1)]
    assert trace.intervals[3].compiles == []
