"""Programs kept on request, and compared: two compiles of a function, and one model's StableHLO of two stacks."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import program
import pytest
import sample_trace
from click.testing import CliRunner, Result

import coldstep
from coldstep.analysis.programs import alignment, ir, operations, stablehlo
from coldstep.analysis.programs.sources import Spot, plain, readable
from coldstep.model import Trace
from coldstep_viewers.commands import cli
from coldstep_viewers.pages.programs import side_by_side
from coldstep_viewers.pages.programs_page import programs

ROOT = Path(__file__).parents[3]

Record = Callable[..., Path]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Run a function under a trace that keeps programs."""

    def run(body: Callable[[], object], collectors: str, ir: bool = True) -> Path:
        with coldstep.trace(tmp_path / "run.pftrace", collectors=collectors, ir=ir):
            body()
        return tmp_path / "run.pftrace"

    return run


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(word) for word in words], catch_exceptions=False)


def pairs(trace: Path) -> list[dict[str, Any]]:
    """What `diff --ir` says of a trace's recompiles."""
    done = run("diff", "--ir", trace, trace, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)["pairs"]
    return found


# --- two compiles of a function -----------------------------------------------------------------------------------


def train_with_jax() -> None:
    import jax
    import jax.numpy as jnp

    @partial(jax.jit, static_argnames="rate")
    def train_step(params: Any, momentum: Any, x: Any, rate: float) -> Any:
        def loss(params: Any) -> Any:
            return jnp.square(x @ params["w"]).mean()

        gradients = jax.grad(loss)(params)
        if momentum is not None:
            gradients = jax.tree.map(lambda g, m: g + 0.9 * m, gradients, momentum)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradients), gradients

    params, momentum, x = {"w": jnp.ones((4, 2))}, None, jnp.ones((8, 4))
    params, momentum = train_step(params, momentum, x, rate=0.25)
    params, momentum = train_step(params, momentum, x, rate=0.25)
    params, momentum = train_step(params, momentum, x, rate=0.125)
    train_step(params, momentum, x[:5], rate=0.125)


@pytest.mark.jax
def test_what_differs_between_a_functions_compiles_in_jax(record: Record, engine: ModuleType) -> None:
    trace = record(train_with_jax, "jax")
    engine.assert_clean(trace)
    state, rate, batch = pairs(trace)

    assert state["inputs"] == {"added": ["momentum['w']: f32[4,2]"], "removed": ["momentum: None"], "changed": []}
    forms = {row["form"]: row for row in state["forms"]}
    assert list(forms) == ["jaxpr", "stablehlo", "optimized_hlo"]
    assert forms["jaxpr"]["operations"] == {"mul": [3, 4], "add": [0, 1]}
    assert forms["stablehlo"]["operations"]["stablehlo.add"] == [0, 1]
    assert forms["stablehlo"]["constants"]["dense<0.899999976> tensor<f32>"] == [0, 1]
    added = [line for line in forms["stablehlo"]["changes"] if line.startswith("+")]
    assert sum("stablehlo.add" in line for line in added) == 1

    [jaxpr, lowered, _] = rate["forms"]
    assert rate["inputs"] == {"added": [], "removed": [], "changed": []}
    assert (jaxpr["operations"], lowered["operations"]) == ({}, {})
    assert jaxpr["constants"] == {"0.125 f32[]": [0, 1], "0.25 f32[]": [1, 0]}
    assert [line[0] for line in lowered["changes"] if line[0] in "+-"] == ["-", "+"]

    assert batch["inputs"]["changed"] == [["x", "f32[8,4]", "f32[5,4]"]]
    types = batch["forms"][1]["types"]
    assert {(row["before"], row["after"]) for row in types} >= {("tensor<8x4xf32>", "tensor<5x4xf32>")}
    assert not [line for line in batch["forms"][1]["changes"] if "stablehlo.dot_general" in line and line[0] in "+-"]

    said = run("diff", "--ir", trace, trace).stdout
    assert "+ momentum['w']: f32[4,2]" in said
    assert "0.25 f32[]: 1 → 0" in said


@pytest.mark.jax
def test_a_run_keeps_programs_and_a_report_shows_them_with_their_source_lines(tmp_path: Path) -> None:
    script, trace = tmp_path / "train.py", tmp_path / "train.pftrace"
    script.write_text(
        "import jax\n"
        "import numpy as np\n"
        "@jax.jit\n"
        "def train_step(w, x, scale=None):\n"
        "    y = jax.nn.relu(x @ w)\n"
        "    if scale is not None:\n"
        "        y = jax.lax.cond(y.sum() > 0, lambda y: y * scale, lambda y: -y, y)\n"
        "    return y.sum()\n"
        "w, x = np.ones((4, 2), np.float32), np.ones((8, 4), np.float32)\n"
        "train_step(w, x)\n"
        "train_step(w, x, np.float32(2))\n"
    )
    program.warm("jax", ["coldstep", "run", "--ir", "-o", str(trace), str(script)], tmp_path)
    said = run("report", "--ir", trace).stdout
    assert not re.search(r"#loc\d", said)
    [line, _] = [line for line in said.splitlines() if "stablehlo.dot_general %" in line and line.startswith("    %")]
    assert line.endswith("// train.py:5")
    variant = "=== c1 train_step (jax, variant 2)"
    jaxpr, lowered = (said.partition(f"{variant}: {form}, ")[2] for form in ("jaxpr", "stablehlo"))
    assert jaxpr.splitlines()[1:6] == [
        "train.py:5  dot_general, custom_jvp_call",
        "train.py:7  reduce_sum, gt, convert_element_type, cond, neg, mul",
        "train.py:8  reduce_sum",
        "no line     jit, max",
        "",
    ]
    assert re.search(r"^train.py:7 +stablehlo\..*, stablehlo.multiply$", lowered, re.MULTILINE)
    assert "Without their lines of code: parameter (" in said  # of the optimized HLO

    differs = said.partition("=== train_step, c0 → c1: what differs\n")[2]
    assert "    train.py:7: - → reduce_sum, gt, convert_element_type, cond, neg, mul\n" in differs
    [multiplies] = [line for line in differs.splitlines() if "stablehlo.multiply %" in line]
    assert multiplies.strip().startswith("+ ")
    assert multiplies.endswith("  # train.py:7")
    rows = json.loads(run("report", "--ir", "--json", trace).stdout)["compiles"]
    first = next(row for row in rows if row["function"] == "train_step")
    assert set(first["ir"]) == {"jaxpr", "stablehlo", "optimized_hlo"}
    assert first["ir"]["jaxpr"]["text"] == coldstep.load(trace).details[first["id"]].programs["jaxpr"]


@pytest.mark.torch
def test_what_differs_between_a_functions_compiles_under_dynamo(record: Record) -> None:
    def train() -> None:
        import torch

        weight = torch.ones(4, 3, requires_grad=True)

        @partial(torch.compile, backend="aot_eager", dynamic=False)
        def loss(x: Any, rate: float) -> Any:
            return (torch.relu(x @ weight) * rate).sum()

        for x, rate in ((torch.ones(8, 4), 0.25), (torch.ones(5, 4), 0.25), (torch.ones(5, 4), 0.125)):
            loss(x, rate).backward()

    trace = record(train, "dynamo")
    batch, rate = pairs(trace)
    assert [row["form"] for row in batch["forms"]] == ["fx", "aot_joint_graph"]
    assert batch["inputs"]["changed"] == [["x", "f32[8,4]", "f32[5,4]"]]
    [graph, _] = batch["forms"]
    assert (graph["operations"], graph["constants"], graph["changes"]) == ({}, {}, [])
    assert {row["after"] for row in graph["types"]} == {"f32[5, 3][3, 1]cpu"}
    for form in rate["forms"]:
        assert form["constants"] == {"0.125": [0, 1], "0.25": [1, 0]} | form["constants"]
    changes = [line for line in rate["forms"][0]["changes"] if line[0] in "+-"]
    assert [line[0] for line in changes] == ["-", "+"]
    assert "* 0.25" in changes[0]
    assert "* 0.125" in changes[1]


@pytest.mark.torch
def test_a_report_shows_torchs_operations_and_what_differs_by_the_users_line(record: Record) -> None:
    def train() -> None:
        import torch

        @partial(torch.compile, backend="aot_eager", dynamic=False)
        def train_step(w: Any, x: Any, scale: float | None = None) -> Any:
            y = torch.relu(x @ w)
            if scale is not None:
                y = torch.tanh(y * scale)  # its line
            return y.sum()

        w = torch.ones(4, 2, requires_grad=True)
        for scale in (None, 2.5):
            train_step(w, torch.ones(8, 4), scale).backward()

    path = record(train, "dynamo")
    said = run("report", "--ir", path).stdout
    number = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith("# its line"))
    line = f"tests/commands/compare/test_ir.py:{number}"
    forms = ("fx", "aot_joint_graph")
    graph, joint = (said.partition(f"(dynamo, variant 2): {form}, ")[2].splitlines() for form in forms)
    assert f"{line}  *, torch.tanh" in graph[:5]
    of_line = next(text for text in joint if text.startswith(line))
    assert of_line.endswith(
        "torch.ops.aten.mul.Tensor (2), torch.ops.aten.tanh.default, torch.ops.aten.detach.default (2), "
        "torch.ops.aten.tanh_backward.default"
    )
    differs = said.partition(": what differs\n")[2]
    assert f"    {line}: - → *, torch.tanh\n" in differs
    assert re.search(rf'\+ %\d+: "f32\[8, 2\]\[2, 1\]cpu" = torch.tanh\(%\d+\)  # {re.escape(line)}\n', differs)

    shown = [shown for shown in programs(coldstep.load(path)) if "what differs" in shown.title]
    rows = [row for table in shown[0].tables if table.form == "fx" for row in table.rows]
    [tanh] = [row for row in rows if "torch.tanh" in row[2]]
    assert (tanh[0], tanh[1]) == (line, "")
    [summed] = [row for row in rows if ".sum()" in row[2]]
    assert (summed[0], ".sum()" in summed[1]) == (line.replace(str(number), str(number + 1)), True)


def test_operations_whose_line_is_not_known_stand_together() -> None:
    """As older traces have them, and as PyTorch's own graphs do."""
    jaxpr = "{ lambda ; a:f32[4]. let\n    b:f32[4] = neg a\n    c:f32[4] = neg b # \n  in (c,) }"
    assert operations.by_place("jaxpr", jaxpr, "/repo") == {operations.UNKNOWN: {"neg": 2}}
    graph = (
        "# File: /repo/a.py:3 in f, code: y = x * 2 # File: /b.py:4 in g, code: z\n"
        "mul = x * 2\n\n# No stacktrace found for following nodes\nrelu = torch.relu(mul)\n"
        "# File: /usr/lib/b.py:9 in f, code:\nadd = relu + 1\ndef forward(self):\nneg = -add\nsin = add.sin()\n"
        "# ac_graph_id: 1 - PREFER_RECOMPUTE File: /repo/a.py:5 in g, code: x.cos()\ncos = sin.cos()\n"
        "# Annotation: {'stage': 0} recompute: MUST_SAVE No stacktrace found for following nodes\ntan = cos.tan()\n"
        "# \nexp = tan.exp()"
    )
    assert operations.by_place("fx", graph, "/repo") == {
        ("/usr/lib/b.py", 9): {"+": 1}, ("a.py", 3): {"*": 1}, ("a.py", 5): {".cos": 1},
        operations.UNKNOWN: {"torch.relu": 1, ".sin": 1, ".tan": 1, ".exp": 1},
    }  # fmt: skip
    assert operations.by_place("inductor_code", graph, "/repo") == {}
    known, unknown = {("a.py", 3): Counter("ab")}, {operations.UNKNOWN: Counter("a")}
    assert operations.differing(unknown, unknown | {operations.UNKNOWN: Counter("b")}) == []
    assert operations.differing(known, known) == []
    assert operations.differing(unknown, known) == [
        operations.Differing("a.py", 3, {}, {"a": 1, "b": 1}),
        operations.Differing("", 0, {"a": 1}, {}),
    ]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("stablehlo", "a loc(#loc1) b\n"), ("stablehlo", ' a = "x" "x" '), ("jaxpr", "a:"), ("jaxpr", "a:b "),
        ("jaxpr", " let a:b = c; "), ("jaxpr", " # a:1:"), ("fx", "# File: a:1 in "), ("fx", "# File: a:1"),
        ("fx", "a: \"b\" = c"), ("optimized_hlo", "a = b] c"), ("lazy_ir", "%1 = a::b"),
    ],
)  # fmt: skip
def test_a_long_text_of_a_strangers_is_read_in_no_time(form: str, line: str) -> None:
    text = '#loc1 = loc("x")\n' + line * (60_000 // len(line))
    begin = time.process_time()
    operations.by_place(form, text, "/repo")
    if form == "stablehlo":
        readable(text, "/repo")
    assert time.process_time() - begin < 5


MODULE = """
module @jit_f {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x3xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<2x3xf32>
    %2 = stablehlo.multiply %1, %cst : tensor<2x3xf32>
    return %2 : tensor<2x3xf32>
  }
}
"""
HLO = """
HloModule jit_f, is_scheduled=true

FileNames
1 "/a.py"

ENTRY %main.5 (Arg_0.1: f32[2,3]) -> f32[2,3] {
  %Arg_0.1 = f32[2,3]{1,0} parameter(0), metadata={op_name="x"}
  %constant.2 = f32[] constant(2)
  %broadcast.7 = f32[2,3]{1,0} broadcast(%constant.2), dimensions={}
  ROOT %multiply.9 = f32[2,3]{1,0} multiply(%Arg_0.1, %broadcast.7), metadata={op_name="jit(f)/mul" stack_frame_id=3}
}
"""
LAZY = """
IR {
  %0 = f32[] prim::Constant(), xla_shape=f32[], value=2
  %1 = f32[2,3]{1,0} xla::device_data(), xla_shape=f32[2,3]{1,0}
  %2 = f32[2,3]{1,0} aten::mul(%1, %0), xla_shape=f32[2,3]{1,0}, ROOT=0
}
"""


@pytest.mark.parametrize(
    ("form", "text", "renamed", "was", "now", "operation", "constant"),
    [
        ("stablehlo", MODULE, r"%(\d+|cst)\b", "stablehlo.multiply", "stablehlo.divide",
         "stablehlo.multiply", "dense<2.000000e+00> tensor<2x3xf32>"),
        ("optimized_hlo", HLO, r"(?<=\.)\d+\b", " multiply(", " divide(", "multiply", "2 f32[]"),
        ("lazy_ir", LAZY, r"(?<=%)\d+", "aten::mul", "aten::div", "aten::mul", "2 f32[]"),
    ],
)  # fmt: skip
def test_names_of_values_say_nothing(
    form: str, text: str, renamed: str, was: str, now: str, operation: str, constant: str
) -> None:
    other = re.sub(renamed, lambda name: f"{name[0]}1", text)
    assert other != text
    same = ir.diff(form, text, other)
    assert (same.operations, same.constants, same.types, same.changes) == ({}, {}, {}, [])

    changed = ir.diff(form, text, other.replace(was, now))
    assert changed.operations[operation] == (1, 0)
    assert (changed.constants, changed.types) == ({}, {})
    assert [line[0] for line in changed.changes if line[0] in "+-"] == ["-", "+"]

    other = ir.diff(form, text, other.replace("2.000000e+00", "3.0").replace("(2)", "(3)").replace("=2", "=3"))
    assert other.constants[constant] == (1, 0)
    assert other.operations == {}


# --- keeping them -------------------------------------------------------------------------------------------------


@pytest.mark.jax
def test_programs_are_kept_on_request_only(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    from coldstep_collectors.jax._private.hooks import Internals

    def asked(*_: object) -> str:
        raise AssertionError("a program was asked for")

    monkeypatch.setattr(Internals, "text", asked)
    monkeypatch.setattr(Internals, "optimized", asked)
    path = record(train_with_jax, "jax", ir=False)
    trace = coldstep.load(path)
    assert not trace.keeps_programs
    assert not [row for row in trace.collectors if row.name == "jax" and row.state == "failed"]
    assert not [note for note in trace.run.notes if "could not be taken" in note]
    done = run("report", "--ir", path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "holds no programs" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert run("report", "--ir", "--format", "html", path).stderr == done.stderr
    assert run("diff", "--ir", path, path).exit_code == 2


@pytest.mark.jax
def test_a_program_beyond_the_limit_is_a_note(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldstep.recording.intake._MAX_IR_CHARS", 2_000)
    trace = coldstep.load(record(train_with_jax, "jax"))
    [first, *_] = [row.id for row in trace.compiles if row.function == "train_step"]
    assert set(trace.details[first].programs) == {"jaxpr"}
    said = " ".join(trace.run.notes)
    assert re.search(rf"stablehlo of compile {first} was not kept: [\d,]+ characters, over 2,000", said)


@pytest.mark.jax
def test_bad_input_is_one_line(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(train_with_jax, "jax")
    done = run("diff", "--ir", f"{path}#evaluate", path)
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "no program of evaluate" in line
    with pytest.raises(stablehlo.ParserError, match="no StableHLO module"):
        stablehlo.parse("func.func @main( {")
    monkeypatch.setitem(sys.modules, "jax.extend.mlir.ir", None)
    with pytest.raises(stablehlo.ParserError, match=r"pip install 'coldstep\[ir\]'"):
        stablehlo.parse(MODULE)


# --- two stacks ---------------------------------------------------------------------------------------------------


def differences(a: str, b: str) -> list[alignment.Difference]:
    return alignment.compare(stablehlo.parse(a), stablehlo.parse(b), ("a", "b")).differences


def lowered(function: Callable[..., Any], *shapes: tuple[int, ...]) -> str:
    import jax

    text: str = jax.jit(function).lower(*(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes)).as_text()
    return text


@pytest.mark.jax
def test_structure_is_compared_whatever_the_layer() -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np

    def mixed(x: Any, w: Any, v: Any) -> Any:
        return jax.nn.softmax((x @ w) * jnp.arange(6.0), -1) @ v

    def flat(x: Any, w: Any, v: Any) -> Any:
        logits = (x.reshape(20, 8) @ w).reshape(4, 5, 6) * np.arange(6, dtype=np.float32)
        return (jnp.exp(logits) / jnp.exp(logits).sum(-1, keepdims=True)) @ v

    shapes = (4, 5, 8), (8, 6), (6, 3)
    assert differences(lowered(mixed, *shapes), lowered(mixed, *shapes)) == []
    found = differences(lowered(mixed, *shapes), lowered(flat, *shapes))
    [shape] = [row for row in found if row.kind == "shape"]
    assert shape.text.startswith("b flattens 4 by 5 into 20, where a keeps the dimensions apart: dot_general")
    [table] = [row for row in found if row.kind == "constant"]
    assert table.text == "b holds the literal table [0.0, 1.0, 2.0, 3.0, … 5.0] (f32[6]); a computes it with iota"
    [softmax] = [row for row in found if row.kind == "operations"]
    assert softmax.text == "b has exponential where a has reduce maximum, maximum, subtract"


FOR_MACHINES = """
#loc1 = loc("x")
module @jit_f {
  func.func public @main(%arg0: tensor<2xf32> loc("x")) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32> loc(#loc5)
    return %0 : tensor<2xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("/repo/site-packages/layers.py":7:4 to :9)
#loc3 = loc("/repo/model.py":3:4 to :9)
#loc4 = loc(callsite(#loc6 at #loc7))
#loc5 = loc("jit(f)/add"(#loc4))
#loc6 = loc("dense"(#loc2))
#loc7 = loc("forward"(#loc3))
"""
FOR_PEOPLE = """
module @IrToHlo.3 {
  func.func @main(%arg0: tensor<2xf32> "xla__device_data"(#loc7)) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32> "aten__add"(#loc4)
    return %0 : tensor<2xf32> [unknown]
  } [unknown]
} [unknown]
#loc = [unknown]
#loc2 = /repo/site-packages/layers.py:7:0
#loc3 = /repo/model.py:3:0
#loc4 = #loc6
 at #loc7
#loc6 = "dense"(#loc2)
#loc7 = "forward"(#loc3)
"""


@pytest.mark.jax
@pytest.mark.parametrize(
    "inner",
    [
        "site-packages/layers.py",
        "coldstep/viewers/coldstep_viewers/marking.py",
        "coldstep/viewers/coldstep_viewers/commands/record/run.py",
        "site-packages/coldstep/__main__.py",
    ],
)
@pytest.mark.parametrize("text", [FOR_MACHINES, FOR_PEOPLE])
def test_source_lines_are_read_as_either_stack_prints_them(text: str, inner: str) -> None:
    text = text.replace("site-packages/layers.py", inner)
    number = next(n for n, line in enumerate(text.split("\n"), 1) if "stablehlo.add" in line)
    [add] = [node for node in stablehlo.parse(text, "/repo").nodes if node.op == "add"]
    assert add.spot == Spot(number, coldstep.model.Location("model.py", 3, "forward"))
    assert len(plain(text).split("\n")) == len(text.split("\n"))
    shown = readable(text, "/repo")
    assert shown.split("\n")[number - 1].endswith("tensor<2xf32>  // model.py:3")
    assert "#loc" not in shown


OF_TENSORFLOW = """
#loc1 = loc("gradient_tape/MaxPool")
#loc2 = loc("/project/site-packages/tensorflow/python/framework/ops.py":1221:0)
module @a_inference_step {
  func.func @main(%arg0: tensor<4x16xf32> loc(fused[#loc1, #loc2])) -> tensor<4x16xf32> {
    %c = stablehlo.constant dense<"0x0100030007000FF0"> : tensor<4x16xi1> loc(#loc1)
    %0 = stablehlo.select %c, %arg0, %arg0 : tensor<4x16xi1>, tensor<4x16xf32> loc(fused["while[0]"(#loc1), #loc2])
    return %0 : tensor<4x16xf32> loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
"""


@pytest.mark.jax
def test_a_module_is_read_as_tensorflow_prints_it() -> None:
    [mask] = [node for node in stablehlo.parse(OF_TENSORFLOW).nodes if node.op == stablehlo.CONSTANT]
    assert mask.table == "[1, 0, 0, 0, … 1]"
    assert (str(mask.type), mask.spot) == ("i1[4,16]", Spot(6))
    [select] = [node for node in stablehlo.parse(OF_TENSORFLOW).nodes if node.op == "select"]
    assert select.spot == Spot(7)  # the one line that is named is the framework's, of every operation the same
    shown = readable(OF_TENSORFLOW, "/repo")
    assert "fused" not in shown
    assert "loc" not in shown


@pytest.mark.jax
@pytest.mark.parametrize("type_", ["4x17xi1", "9999999999x9999999999xi1", "1xi1"])
def test_truth_values_that_are_too_few_are_no_module(type_: str) -> None:
    with pytest.raises(stablehlo.ParserError, match="no StableHLO module"):
        stablehlo.parse(OF_TENSORFLOW.replace("tensor<4x16xi1>", f"tensor<{type_}>"))


LOWER = """
    from functools import partial

    import jax
    import jax.numpy as jnp
    import torch
    import torch_xla

    import coldstep
    from coldstep_collectors.jax._private import hooks as jax_hooks
    from coldstep_collectors.torch_xla._private.hooks import Internals as TorchXla
    from two_models import models_jax, models_torch, train_jax
    from two_models.sizes import FFN, GPT2_SMALL

    torch_xla._XLAC._set_ir_debug(True)  # as its import does where XLA_IR_DEBUG is set
    size, device = GPT2_SMALL, torch_xla.device()


    def keep(name, text):
        with open(f"{name}.mlir", "w") as file:
            file.write(text)


    def of_jax(name, lowered):
        keep(f"{name}_jax", jax_hooks.text(lowered.compiler_ir()))


    def of_torch_xla(name, results):
        keep(f"{name}_torch_xla", TorchXla(torch_xla).programs(results)["stablehlo"])


    rows = jax.ShapeDtypeStruct((16, 64), jnp.float32)
    params = jax.eval_shape(partial(models_jax.ffn_init, size=FFN()), jax.random.key(0))
    of_jax("ffn", jax.jit(models_jax.ffn).lower(params, rows))
    state = jax.eval_shape(train_jax.optimizer.init, params)
    of_jax("ffn_step", train_jax.ffn_step.lower(params, state, {"x": rows, "y": rows}))
    params = jax.eval_shape(partial(models_jax.gpt_init, size=size), jax.random.key(0))
    tokens = jax.ShapeDtypeStruct((size.batch, size.length), jnp.int32)
    of_jax("gpt", jax.jit(partial(models_jax.gpt, heads=size.heads)).lower(params, tokens))

    model = models_torch.ffn(FFN()).to(device)
    batch = {name: torch.randn(16, 64).to(device) for name in ("x", "y")}
    of_torch_xla("ffn", [model(batch["x"])])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = models_torch.ffn_loss(model, batch)
    loss.backward()
    optimizer.step()
    of_torch_xla("ffn_step", [loss, *model.parameters()])
    tokens = torch.randint(size.vocabulary, (size.batch, size.length)).to(device)
    of_torch_xla("gpt", [models_torch.GPTModel(size).to(device)(tokens)])

    with coldstep.trace("run.pftrace", collectors="torch_xla", ir=True):
        layer, x = torch.nn.Linear(4, 2).to(device), torch.ones(3, 4).to(device)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
        torch_xla.sync()
        for _ in range(2):
            optimizer.zero_grad()
            layer(x).sum().backward()
            optimizer.step()
            torch_xla.sync()
"""


def lowered_by_both(folder: Path, name: str) -> Trace:
    """A trace of one model in JAX and in torch_xla, of which only the programs are real."""
    trace = sample_trace.sample()
    trace.run.root = str(ROOT)
    [jax, *_, torch_xla] = trace.compiles[:3]
    torch_xla.stack = "torch_xla"
    for row in jax, torch_xla:
        trace.details[row.id].programs = {"stablehlo": (folder / f"{name}_{row.stack}.mlir").read_text()}
    return trace


def compared(trace: Trace) -> ir.Pair:
    [(before, after)] = ir.pairs(trace, trace, "jax", "torch_xla")
    return ir.compare(trace, before, trace, after)


def says(found: alignment.Difference, *words: str) -> bool:
    return all(word in found.text for word in words)


@pytest.mark.torch_xla
def test_how_models_differ_between_jax_and_torch_xla(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT / "tests"), "XLA_HLO_DEBUG": "1"}
    program.run(LOWER, tmp_path, env=environment, stack="torch_xla")
    gpt2_small_differs(lowered_by_both(tmp_path, "gpt"))
    for name in ("ffn", "ffn_step"):
        ffn_does_not(lowered_by_both(tmp_path, name))
    momentum_is_an_input(pairs(tmp_path / "run.pftrace"))


def gpt2_small_differs(trace: Trace) -> None:
    pair = compared(trace)
    assert pair.structure is not None
    assert (pair.structure.aligned, pair.structure.anchors) == (75, (75, 75))
    found = pair.structure.differences

    [flat] = [row for row in found if row.kind == "shape" and says(row, "torch_xla flattens 2 by 64")]
    assert says(flat, "input i32[2,64]", "into 128, where jax keeps the dimensions apart", "49 dot_general")
    [norm] = [row for row in found if says(row, "batch_norm_training")]
    assert says(norm, "torch_xla has batch_norm_training where jax writes out the steps", "rsqrt", "reduce add")
    [table] = [row for row in found if row.kind == "constant"]
    assert says(table, "torch_xla holds the literal table [0, 1, 2, 3, … 63]", "jax computes it with iota")
    takes = [row for row in found if says(row, "torch_xla has gather where jax calls @_take")]
    assert [len(row.places) for row in (flat, norm, table, *takes)] == [50, 25, 1, 1, 1]

    expected = {
        "batch_norm_training": (norm, "in layer_norm"),
        "gather": (takes[0], "in gpt"),
        "constant": (table, "in gpt"),
        "dot_general": (flat, "in linear"),
    }
    texts = {row.stack: trace.details[row.id].programs["stablehlo"].split("\n") for row in (pair.before, pair.after)}
    said = "\n".join(side_by_side(pair))
    for operation, (row, function) in expected.items():
        for place in row.places:
            for spot, stack in ((place.a[0], "jax"), (place.b[0], "torch_xla")):
                assert spot.source is not None
                assert spot.source.file.startswith("tests/two_models/models_")
                assert 1 <= spot.line <= len(texts[stack])
        assert any(operation in texts["torch_xla"][spot.line - 1] for place in row.places for spot in place.b)
        assert row.text in said
        assert function in said


def ffn_does_not(trace: Trace) -> None:
    pair = compared(trace)
    assert pair.structure is not None
    assert pair.structure.aligned == pair.structure.anchors[0] == pair.structure.anchors[1] >= 3
    assert {row.kind for row in pair.structure.differences} <= {"layout", "operations"}
    said = " ".join(row.text for row in pair.structure.differences)
    for word in ("flattens", "batch_norm", "table", "iota", "gather", "take"):
        assert word not in said


def momentum_is_an_input(recompiles: list[dict[str, Any]]) -> None:
    [recompile] = recompiles
    assert {name.partition(": ")[0] for name in recompile["inputs"]["added"]} == {
        f"optimizer.state[layer.{name}]['momentum_buffer']" for name in ("weight", "bias")
    }
    forms = {row["form"]: row["operations"] for row in recompile["forms"]}
    assert forms["stablehlo"]["stablehlo.multiply"] == [2, 4]
    assert forms["lazy_ir"]["aten::mul"] == [0, 2]
