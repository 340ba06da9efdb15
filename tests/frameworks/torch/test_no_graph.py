"""A model that torch.compile leaves as it was is not called settled without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import run, warm

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
    done = run(PROGRAM, tmp_path, stack="torch")
    assert done.stdout == "{}\n", "PyTorch counts no graph"
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert trace.processes[0].rank is None, "a group of one process has no ranks"
    [finding] = [row for row in trace.findings if row.kind == "silent_eager"]
    assert finding.text == "torch.compile compiled no graph: DistributedDataParallel.forward runs eagerly"
    assert finding.evidence
    assert headline(trace).endswith("; torch.compile compiled no graph")
    text = " ".join(render(trace).split())
    assert "after it no graph was compiled" in text
    assert "caused 1 compile" not in text
    assert {"DistributedDataParallel(torch.compile(model))" in row.advice for row in trace.graph_breaks} == {True}


LIBRARY = """
import torch

@torch.compile
def helper(x):
    return x + 1
"""


@pytest.mark.torch
def test_what_a_library_compiles_of_its_own_need_not_be_called(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "helpers.py").write_text(LIBRARY)
    path = f"import sys\nsys.path.append({str(packages)!r})\n"
    (tmp_path / "t.py").write_text(f"{path}import helpers, torch\nmine = torch.compile(lambda x: x + 1)\n")
    warm("torch", ["coldstep", "run", "t.py"], tmp_path)
    found = [row.text for row in coldstep.load(tmp_path / "t.pftrace").findings if row.kind == "uncompiled"]
    assert found == ["nobody called what torch.compile returned for <lambda>, and nothing was compiled"]


@pytest.mark.torch
def test_nor_what_an_installed_program_compiles_of_its_own(tmp_path: Path) -> None:
    """As `vllm serve`: its package is the program, and its user cannot call anything of it."""
    package = tmp_path / "lib" / "site-packages" / "server"
    package.mkdir(parents=True)
    (package / "helpers.py").write_text(LIBRARY)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import server.helpers\n")
    command = ["coldstep", "run", "-o", "t.pftrace", "-m", "server"]
    warm("torch", command, tmp_path, env={"PYTHONPATH": str(package.parent)})
    assert not [row.text for row in coldstep.load(tmp_path / "t.pftrace").findings if row.kind == "uncompiled"]
