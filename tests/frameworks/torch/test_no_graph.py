"""A model that torch.compile leaves as it was is not called settled without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import run

import coldstep
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.terminal import render

PROGRAM = """
    import coldstep, torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    step = torch.compile(model, backend="aot_eager")
    with coldstep.trace("t.pftrace"):
        for _ in range(4):
            with coldstep.step():
                step(torch.ones(2, 4)).sum().backward()
    print(dict(torch._dynamo.utils.counters["stats"]))
    dist.destroy_process_group()
"""


@pytest.mark.torch
def test_a_wrapped_model_of_which_no_graph_is_compiled_runs_eagerly(tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path)
    assert done.stdout == "{}\n", "PyTorch counts no graph"
    trace = coldstep.load(tmp_path / "t.pftrace")
    [finding] = [row for row in trace.findings if row.kind == "silent_eager"]
    assert finding.text == "torch.compile compiled no graph: DistributedDataParallel.forward runs eagerly"
    assert finding.evidence
    assert headline(trace).endswith("; torch.compile compiled no graph")
    text = " ".join(render(trace).split())
    assert "after it no graph was compiled" in text
    assert "caused 1 compile" not in text
