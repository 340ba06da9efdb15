"""Graph breaks inside a library: the user's own line, the library's below it, and an advice for what broke."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import program
import pytest
from scenarios.logs import READ_AGAIN

import coldstep
from coldstep.analysis import breaks
from coldstep.analysis.remedies.table import advice
from coldstep.logs import convert
from coldstep.model import GraphBreak, Trace
from coldstep_collectors.torch._private.breaks import BreakReason
from coldstep_collectors.torch.graph_breaks import kind_of
from coldstep_viewers.report.terminal import render

LIBRARY = """\
import torch


class Rope(torch.nn.Module):
    def forward(self, x):
        longest = x.max().item()
        return x * longest


class Guess(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x
"""
MODEL = """\
import thelib
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rope = thelib.Rope()
        self.guess = thelib.Guess()

    def forward(self, x):
        x = self.rope(x * 2)
        return self.guess(x)


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Model()

    def forward(self, x):
        return self.model(x) + 1
"""
MAIN = """\
import model
import torch

net = torch.compile(model.Outer(), backend="eager")
net(torch.ones(3))
net(torch.ones(3))
layers = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 3)), backend="eager")
for batch in (torch.ones(8, 3), torch.ones(5, 3)):
    loss = layers(batch).sum()
try:
    torch.compile(lambda t: t * [1.0], backend="eager")(torch.ones(3))
except Exception as error:
    print(error)
"""
LOGGED = """\
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks] Graph break in user code at /v/site-packages/thelib/rope.py:6
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks] Graph Break Reason: Unsupported Tensor.item() call with capture_scalar_outputs=False
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks] User code traceback:
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks]   File "/repo/main.py", line 5, in <module>
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks]     net(torch.ones(3))
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks]   File "/v/site-packages/thelib/rope.py", line 6, in forward
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [0/0] [__graph_breaks]     longest = x.max().item()
"""  # noqa: E501


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    """What the trace of one run tells, and what the log that PyTorch wrote of it does. Every function is a `forward`,
    of which PyTorch's words on a graph break name the innermost alone."""
    folder = tmp_path_factory.mktemp("forwards")
    package = folder / "site-packages" / "thelib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LIBRARY)
    (folder / "model.py").write_text(MODEL)
    (folder / "main.py").write_text(MAIN)
    (folder / "logs_again.py").write_text(READ_AGAIN)
    env = {"PYTHONPATH": str(package.parent), "TORCH_TRACE": str(folder / "logs")}
    words = ["coldstep", "run", "-o", "live.pftrace", "main.py"]
    program.warm("torch", words, folder, env=env, settings=["logs_again"])
    convert([str(folder / "logs")], str(folder / "log.pftrace"), lambda read, total: None)
    return {name: coldstep.load(folder / f"{name}.pftrace") for name in ("live", "log")}


@pytest.mark.torch
@pytest.mark.parametrize("name", ["live", "log"])
def test_a_break_in_a_library_stands_at_the_users_innermost_line(told: dict[str, Trace], name: str) -> None:
    trace = told[name]
    places = [[(os.path.basename(place.file), place.line) for place in row.stack] for row in trace.graph_breaks]
    assert [place[-3:] for place in places] == [
        [("main.py", 5), ("model.py", 22), ("model.py", 12)],
        [("main.py", 5), ("model.py", 22), ("model.py", 13)],
    ]
    assert [row.location for row in trace.graph_breaks] == [row.stack[-1] for row in trace.graph_breaks]
    assert [trace.below[row.id] for row in trace.graph_breaks] == [
        "thelib:6 in forward: longest = x.max().item()",
        "thelib:12 in forward: if x.sum() > 0:",
    ]
    # each compile that goes on after a break is of that break, and the inner frames' own breaks are its echoes
    went_on = [(row.location, row.caused_by) for row in trace.compiles if row.location and "resumed" in row.function]
    assert [(os.path.basename(place.file), place.line, cause) for place, cause in went_on] == [
        ("__init__.py", 6, "b0"),
        ("model.py", 12, "b0"),
        ("__init__.py", 12, "b1"),
        ("model.py", 22, "b0"),
    ]
    assert [row.count for row in trace.graph_breaks] == [1, 1]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["live", "log"])
def test_its_advice_answers_the_reason(told: dict[str, Trace], name: str) -> None:
    reads, branches = told[name].graph_breaks
    assert "capture_scalar_outputs = True" in reads.advice
    assert "thelib reads a tensor's value" in reads.advice
    assert "thelib chooses by a tensor's value" in branches.advice
    found = [row for row in told[name].findings if row.kind == "graph_break"]
    assert all(any("below that line: thelib:" in text for text in row.evidence) for row in found)
    report = render(told[name], width=200)
    assert "below     thelib:6 in forward: longest = x.max().item()" in report


@pytest.mark.torch
@pytest.mark.parametrize("name", ["live", "log"])
def test_other_advice_can_be_followed_too(told: dict[str, Trace], name: str) -> None:
    [failed] = [row for row in told[name].findings if row.kind == "failed_compile"]
    assert "Run it without torch.compile first" in failed.advice
    assert failed.location is not None
    assert failed.location.line == 11
    [recompile] = told[name].recompiles
    assert "torch._dynamo.maybe_mark_dynamic(batch, 0)" in recompile.advice, "the module calls it `input`"
    assert recompile.remedies[1].environment == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['args'][0]:0"}


def test_a_log_that_does_not_tell_the_users_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "ci.log").write_text(LOGGED)
    convert([str(tmp_path / "ci.log")], str(tmp_path / "ci.pftrace"), lambda read, total: None)
    trace = coldstep.load(tmp_path / "ci.pftrace")
    assert len(trace.graph_breaks) == 1
    assert any("PyTorch's words leave it out" in text for row in trace.collectors for text in row.missing)


IN_EAGER = (
    "Your code may result in an error when running in eager. Please double check that your code doesn't contain it."
)
A_BUG = "This is likely to be a Dynamo bug. Please report an issue to PyTorch."


@pytest.mark.parametrize(
    ("reason", "hints", "library", "advised"),
    [
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False", [], "thelib", "capture_scalar_outputs"),
        ("Dynamic shape operator: Operator `aten.nonzero`", [], "thelib", "dynamic_output_shape"),
        ("Dynamic shape operator (no meta kernel): Operator `mine`", [], None, "register_fake"),
        ("logging.Logger method not supported for non-export cases", [], "thelib", "ignore_logging_functions"),
        ("Data-dependent assertion failed (cannot compile partial graph)", [], None, "torch._assert"),
        ("torch.cond: differing branch outputs", [IN_EAGER], None, "Run it without torch.compile first"),
        ("Tensor.tolist() with non-integer tensor", ["Ensure the input tensor to `tolist()` is an integer type."], None,
         "is an integer type"),
        ("Attempted to wrap RNN, GRU, or LSTM", ["Set torch._dynamo.config.allow_rnn=True to enable it."], "thelib",
         "allow_rnn"),
        ("proxy not set", [A_BUG], None, "bug of PyTorch's"),
        ("Unsupported method call", ["Avoid calling `f` in your code."], "thelib", "newer version of it"),
        ("Import failure: Failure when attempting to import.", [IN_EAGER], None, "import it once, outside of the"),
        ("Import failure: Failure when attempting to import.", [IN_EAGER], "thelib", "Run it without torch.compile"),
        ("Unsupported method call: Dynamo does not know how to trace method `__new__` of class `PyCFuncPtrType`",
         ["Avoid calling `PyCFuncPtrType.__new__` in your code."], None, "cannot look into ctypes"),
        ("Unsupported method call", ["Avoid calling `f` in your code."], "torch._dynamo.polyfills", "Avoid calling f"),
        ("Failed to trace builtin operator: `open`", ["Avoid calling `open`."], None, "Avoid calling open."),
    ],
)  # fmt: skip
def test_the_advice_is_for_the_reason_in_ones_own_code_and_in_a_librarys(
    reason: str, hints: list[str], library: str | None, advised: str
) -> None:
    row = GraphBreak("b0", 0, "other", reason, "f", None, [], None, 0, None, 1, [], 0, hints, "")
    assert advised in advice(breaks.mending(row, library))


# PyTorch 2.6's own words
OLD_WORDS = {
    "call torch._dynamo.disable() wrapped function <function log at 0x7f23e0584040>": "explicit",
    "'skip function graph_break in file site-packages/torch/_dynamo/decorators.py'": "explicit",
    "Tensor.item": "data_dependent",
    "builtin: print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False": "side_effect",
    "Graph break due to unsupported builtin zlib.crc32. This function is either a Python builtin": "unsupported_call",
    "'skip function Adam.step in file site-packages/torch/optim/lr_scheduler.py'": "unsupported_call",
    "something new": "other",
}


@pytest.mark.parametrize("text", OLD_WORDS)
def test_the_words_of_older_pytorch_have_a_kind(text: str) -> None:
    reason = f"Graph break in user code at methods/called.py:14\nReason: Unsupported: {text}"
    assert kind_of(BreakReason(reason, [], [], whole_frame=False)) == OLD_WORDS[text]


RESUMED = """\
import torch

import coldstep


def f(x, scale):
    y = x.sin()
    print("half way")
    return y * scale, x


def g(x):
    return x.sum().item() * x.mean().item() + x


def h(x, log):
    log.append(x.sum().item())
    return x + 1


halves, reads, keeps = (torch.compile(each, backend="eager", dynamic=False) for each in (f, g, h))
with coldstep.trace("resumed.pftrace", live=False):
    for size in (4, 6, 8):
        with coldstep.step():
            halves(torch.ones(size), float(size))
            reads(torch.ones(2) * size)
            keeps(torch.ones(2), [])
"""


@pytest.mark.torch
def test_what_follows_a_break_is_mended_at_the_break(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(RESUMED)
    program.warm("torch", ["main.py"], tmp_path)
    trace = coldstep.load(tmp_path / "resumed.pftrace")
    functions = {row.id: row.function for row in trace.compiles}
    said = {(functions[row.compile], row.argument): row.advice for row in trace.recompiles}
    whole = said["f", "x"]
    assert whole.startswith("torch.compile(…, dynamic=False) compiles each size for itself")
    rest = next(text for (function, _), text in said.items() if function == "f, resumed at line 8")
    printing, reading = (next(row for row in trace.graph_breaks if row.function == name) for name in "fg")
    assert rest.startswith("This is what follows the graph break at main.py:8")
    assert rest.index(printing.advice) < rest.index("Or, with the break: ")
    [under_way] = [text for (f, argument), text in said.items() if argument == "<intermediate 0>" and f.startswith("g")]
    assert under_way.startswith("This is what follows the graph break at main.py:13")
    assert under_way.endswith(reading.advice)
    assert "lr=" not in under_way
    [kept] = {row.after for row in trace.recompiles if functions[row.compile].startswith("h, resumed")}
    assert kept == "<builtin_function_or_method list.append>"


EAGER = """
import torch
import coldstep

recurrent = torch.nn.GRU(8, 8, batch_first=True)

def forward(x):
    hidden, _ = recurrent(torch.tanh(x))
    return torch.relu(hidden)

step = torch.compile(forward, backend="eager")
with coldstep.trace("run.pftrace", collectors=["dynamo", "inductor"]):
    for _ in range(3):
        with coldstep.step():
            step(torch.ones(2, 5, 8))
"""


@pytest.mark.torch
def test_what_runs_uncompiled_behind_a_break_is_answered_whatever_the_break_cost(tmp_path: Path) -> None:
    program.run(EAGER, tmp_path, stack="torch")
    trace = coldstep.load(tmp_path / "run.pftrace")
    [found] = trace.graph_breaks
    assert "torch._dynamo.config.allow_rnn=True" in found.advice
    assert found.compiles == [] or version("torch") >= "2.15", "what follows is compiled there"
    kinds = {row.id: row.kind for row in trace.findings}
    assert "graph_break" in [kinds[row.finding] for row in trace.answers]
    assert "Nothing to change" not in render(trace, 100)


BRANCHING = """\
import coldstep
import torch

@torch.compile(backend="eager")
def scale(x):
    length = int(x.max()) + 1
    room = length + 1
    return x * room

@torch.compile(backend="eager")
def crop(x, longest):
    length = int(x.max()) + 1
    room = length + 1
    if room > longest:
        x = x[:longest]
    return x * 2

with coldstep.trace("run.pftrace"):
    scale(torch.arange(3))
    crop(torch.arange(3), 8)
"""


@pytest.mark.torch
def test_no_setting_that_puts_a_value_into_the_graph_is_advised_where_the_code_branches_on_it(tmp_path: Path) -> None:
    program.run(BRANCHING, tmp_path, stack="torch")
    first = {row.function: row for row in reversed(coldstep.load(tmp_path / "run.pftrace").graph_breaks)}
    assert any(each.environment for each in first["scale"].remedies)
    assert not any(each.environment for each in first["crop"].remedies)
    assert "branches on the value" in first["crop"].advice
