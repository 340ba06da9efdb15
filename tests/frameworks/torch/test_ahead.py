"""What PyTorch compiles ahead of its calls (`aot_compile`), and loads that way, is a compile as others are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import in_process
import program
import pytest

import coldstep

pytestmark = pytest.mark.torch

PROGRAM = """\
import torch
import coldstep


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.inner(x))


def score(x, w):
    return torch.tanh(x @ w).sum()


def broken(x):
    torch._dynamo.graph_break()
    return x


def main():
    x, w = torch.ones(2, 4), torch.ones(4, 4)
    net = Net()
    jitted = torch.compile(net, fullgraph=True, backend="aot_eager")
    ahead = jitted.forward.aot_compile(((x,), {}))
    for _ in range(6):
        ahead(net, x)
    compiled = torch.compile(score, fullgraph=True, backend="aot_eager")
    compiled.aot_compile(((x, w), {})).save_compiled_function("score.pt")
    with open("score.pt", "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    for _ in range(6):
        loaded(x, w)
    try:
        torch.compile(broken, fullgraph=True, backend="aot_eager").aot_compile(((x,), {}))
    except Exception as error:
        print(type(error).__name__)
    coldstep.ready()
    compiled.aot_compile(((torch.ones(3, 4), w), {}))


main()
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("ahead")
    (folder / "ahead.py").write_text(PROGRAM)
    done = program.warm("torch", ["coldstep", "run", "ahead.py"], folder)
    return folder / "ahead.pftrace", done


def test_each_is_a_compile_with_its_function_signature_phases_and_caches(
    ran: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    path, done = ran
    assert done.stdout == "Unsupported\n"
    trace = coldstep.load(path)
    rows = [(row.function, [each.part for each in row.segments], row.outcome) for row in trace.compiles]
    assert rows == [
        ("Net.forward", ["ahead"], "compiled"),
        ("score", ["ahead"], "compiled"),
        ("score", ["load"], "cache_hit"),
        ("broken", ["ahead"], "failed"),
        ("score", ["ahead"], "compiled"),
    ]
    net, score, loaded, _, again = trace.compiles
    assert [(row.argument, row.type) for row in net.inputs or []] == [("x", "f32[2,4]")]
    assert [(row.argument, row.type) for row in score.inputs or []] == [("x", "f32[2,4]"), ("w", "f32[4,4]")]
    assert loaded.inputs is None
    assert {row.origin for row in trace.compiles} == {"user"}
    assert score.location == loaded.location
    assert score.program is not None
    assert [(each.layer, each.state) for each in score.caches] == [("aot.autograd", "miss")]
    assert {"dynamo.trace", "aot.joint"} <= {*score.segments[0].phases}
    lines = PROGRAM.splitlines()
    assert [lines[row.caller.line - 1].strip() for row in (score, loaded) if row.caller is not None] == [
        'compiled.aot_compile(((x, w), {})).save_compiled_function("score.pt")',
        "loaded = torch.compiler.load_compiled_function(file)",
    ]
    [recompile] = trace.recompiles
    assert (recompile.compile, recompile.previous) == (again.id, score.id)
    assert (recompile.cause, recompile.argument, recompile.after) == ("shape", "x", "f32[3,4]")


def test_one_after_ready_is_a_violation_which_no_call_would_have_saved(
    ran: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    path, _ = ran
    done = in_process.run("check", "--ready", path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("over budget: 1 compile after ready, none allowed")
    assert "Add to the warm-up" not in done.stdout
    report = in_process.run("report", "--json", path)
    [ready] = json.loads(report.stdout)["readiness"]
    [call] = ready["calls"]
    assert (len(ready["violations"]), call["code"]) == (1, None)
    assert call["why"] == "no call compiles it: it is made ahead of its calls, at ahead.py:41"


def test_calls_of_both_are_calls_of_a_compiled_function(ran: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    path, done = ran
    trace = coldstep.load(path)
    assert {row.name for row in trace.intervals if row.kind == "step"} == {"call of Net", "call of score"}
    assert "nothing compiled" not in done.stderr
