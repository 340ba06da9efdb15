"""Dynamo does for a program under coldstep what it does for it without: it compiles none of coldstep's own code."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import warm

pytestmark = pytest.mark.torch

_NO_PROFILER = "--device", "off"  # while PyTorch's own profiler runs, its compiler announces more
PROGRAM = """\
import torch
from torch._dynamo.utils import counters

torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


@torch.compile(backend="aot_eager")
def train(x):
    optimizer.zero_grad()
    loss = net(x).sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


for size in (2, 2, 3):
    print(float(train(torch.ones(size, 4))))
for kind in ("frames", "stats", "graph_break", "unimplemented"):
    print(kind, sorted(counters[kind].items()))
"""

HOOKED = f"""\
from torch.optim.optimizer import register_optimizer_step_pre_hook
register_optimizer_step_pre_hook(lambda *step: None)
{PROGRAM}"""


# since Python 3.13 Dynamo gives up the step of an optimizer around which there is any hook
@pytest.mark.parametrize("program", [PROGRAM, HOOKED], ids=["without_a_hook", "with_a_hook"])
def test_the_counters_of_a_function_that_calls_backward_are_as_without(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    plain, traced = (
        warm("torch", words, tmp_path) for words in (["program.py"], ["coldstep", "run", *_NO_PROFILER, "program.py"])
    )
    assert "'total'" in plain.stdout
    assert traced.stdout == plain.stdout
