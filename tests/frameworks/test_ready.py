"""`coldstep.ready()`: what compiles afterwards is told, and the call that the report prints cures it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import program
import pytest
import scenarios
from click.testing import CliRunner, Result
from scenarios import warm

import coldstep
from coldstep.analysis.ready.literals import Argument, imports, value
from coldstep.converting import rewrite
from coldstep.model import Trace, Violation
from coldstep_viewers.commands import cli
from coldstep_viewers.report import html, terminal
from coldstep_viewers.report.headline import headline

HERE = Path(__file__).parents[1]
MISTAKES = [path for stack in scenarios.STACKS for path in sorted((HERE / "serving" / stack).glob("*.py"))]
"""Serving mistakes that people reported, each with what is late in it: a cause, and the path of what differs."""
MARKS = {
    "jax": pytest.mark.jax,
    "torch": pytest.mark.torch,
    "tensorflow": pytest.mark.tensorflow,
    "torch_xla": pytest.mark.torch_xla,
}
_LATE = re.compile(r"# late: (\w+)(?: (\S+))?")
_CALLS = re.compile(r"# calls: (\d+)")


def param(path: Path) -> object:
    """A program, with the mark of its stack."""
    stack = path.parent.name
    return pytest.param(path, id=f"{stack}/{path.stem}", marks=MARKS[stack])


def run(source: str, folder: Path, name: str = "program", *options: str, stack: str = "jax") -> Trace:
    """The trace of a small program, under `coldstep run` with these options."""
    script, output = folder / f"{name}.py", folder / f"{name}.pftrace"
    script.write_text(source)
    words = ["coldstep", "run", *options, "-o", str(output), str(script)]
    code, said = warm.server(stack, sys.executable).run(words, folder)
    assert code == 0, said
    output.with_suffix(".log").write_text(said)
    return coldstep.load(output)


def check(*words: str | Path) -> Result:
    """`coldstep check …`."""
    return CliRunner().invoke(cli.main, ["check", *map(str, words)], catch_exceptions=False)


def cured(path: Path, trace: Trace, folder: Path) -> Path:
    """The program with the calls that the report prints put before `coldstep.ready()`."""
    calls = [call for row in trace.readiness for call in row.calls]
    assert all(call.code is not None for call in calls), [call.why for call in calls]
    imports = dict.fromkeys(line for call in calls for line in call.imports)
    lines = [*imports, *(call.code or "" for call in calls), "coldstep.ready()\n"]
    source = path.read_text()
    assert source.count("\ncoldstep.ready()\n") == 1
    found = folder / path.parent.name / f"{path.stem}_cured.py"
    found.parent.mkdir(exist_ok=True)
    found.write_text(source.replace("\ncoldstep.ready()\n", "\n" + "\n".join(lines)))
    return found


def violations(trace: Trace) -> list[Violation]:
    """What compiled after the one `ready()`."""
    [row] = trace.readiness
    assert row.compiles_after == len(row.violations)
    return row.violations


@pytest.mark.parametrize("path", [param(path) for path in MISTAKES])
def test_a_serving_mistake_is_named_and_its_call_cures_it(path: Path, tmp_path: Path) -> None:
    trace = scenarios.run(path, tmp_path)
    source = path.read_text()
    expected = [(cause, None if of in ("-", "") else of) for cause, of in _LATE.findall(source)]
    assert expected
    assert [(row.cause, row.argument) for row in violations(trace)] == expected
    [row] = trace.readiness
    assert sorted(id_ for call in row.calls for id_ in call.covers) == sorted(late.compile for late in row.violations)
    assert sum(call.delay_ns for call in row.calls) == sum(late.cost_ns for late in row.violations)
    if (calls := _CALLS.search(source)) is not None:
        assert len(row.calls) == int(calls[1])
    again = scenarios.run(cured(path, trace, tmp_path), tmp_path)
    assert violations(again) == []
    assert again.readiness[0].why is None


# --- what the program is told -------------------------------------------------------------------------------------

TOLD = """
import json, threading
import jax, numpy as np
import coldstep

@jax.jit
def f(x):
    return x * 2

def call(n):
    return f(np.zeros(n, np.float32))

def say(*values):
    print(json.dumps(values))

def mark():
    try:
        coldstep.wait(None)
    except coldstep.NotReadyError as error:
        return [each.differs for each in error.late]

coldstep.ready()  # without a trace
for wrong in ("loud", 3):
    try:
        coldstep.ready(action=wrong)
    except ValueError as error:
        say(str(error))

told = []
with coldstep.trace("callback.pftrace"):
    call(1)
    coldstep.ready("serving", action=told.append)
    with coldstep.step("request"):
        call(1)
    assert not told
    with coldstep.step("request"):
        call(2)
        call(3)
        assert not told
    say(*[(t.ready, t.function, t.step, t.cause, t.argument, t.differs, t.code, t.frame) for t in told])
    say(str(told[0]), told[0].caller.function)

with coldstep.trace("raise.pftrace"):
    call(4)
    coldstep.ready(action="raise")
    coldstep.wait(call(4))
    try:
        with coldstep.step():
            call(5)
    except coldstep.NotReadyError as error:
        say(str(error))
    say(mark())
    try:
        with coldstep.step():
            call(6)
            raise KeyError("the program's own")
    except KeyError:
        say("KeyError")
    say(mark())
    compiled, goes_on, there = threading.Event(), threading.Event(), []

    def other():
        call(7)
        compiled.set()
        goes_on.wait()
        there.extend(mark())

    thread = threading.Thread(target=other)
    thread.start()
    compiled.wait()
    here = mark()
    goes_on.set()
    thread.join()
    say(here, there)
"""


@pytest.mark.jax
def test_the_program_is_told_at_the_next_mark_of_the_thread_that_compiled(tmp_path: Path) -> None:
    said = [json.loads(line) for line in program.run(TOLD, tmp_path, stack="jax").stdout.splitlines()]
    loud, number, told, text, raised, once, own, later, others = said
    assert loud == ["action='loud' is none of 'note', 'raise' and a function"]
    assert "action=3 " in number[0]
    assert told == [
        ["serving", "f", 1, "shape", "x", f"x: f32[1] → f32[{size}]", f"f(jnp.zeros(({size},), jnp.float32))", None]
        for size in (2, 3)
    ]
    place = next(n for n, line in enumerate(TOLD.splitlines(), 1) if "return f(" in line)
    assert re.fullmatch(
        rf"program.py:{place}: f was compiled after serving in step 1 \(shape, .+\): x: f32\[1\] → f32\[2\]\n"
        r"    the warm-up lacks: f\(jnp.zeros\(\(2,\), jnp.float32\)\)",
        text[0],
    )
    assert text[1] == "call"
    assert "x: f32[4] → f32[5]" in raised[0]
    assert once == [None]  # it is raised once
    assert own == ["KeyError"]  # and never in the place of the program's own error
    assert later == [["x: f32[4] → f32[6]"]]
    assert others == [None, ["x: f32[4] → f32[7]"]]


# --- steps, loads, what cannot be cured ---------------------------------------------------------------------------

MARKED = """
import jax, numpy as np
import coldstep

@jax.jit
def predict(x):
    return (x * 2).sum()

for size in (8, 8, 5, 8):
    with coldstep.step("request"):
        coldstep.wait(predict(np.zeros(size, np.float32)))
"""
INFERRED = """
import jax, numpy as np

@jax.jit
def predict(x):
    return (x * 2).sum()

for size in (8, 8, 8, 8, 8, 5, 8):
    predict(np.zeros(size, np.float32)).block_until_ready()
"""


@pytest.mark.jax
@pytest.mark.parametrize(("source", "after"), [(MARKED, 2), (INFERRED, 5)], ids=["marked", "inferred"])
def test_run_can_say_that_a_program_is_ready_after_so_many_steps(source: str, after: int, tmp_path: Path) -> None:
    [late] = violations(run(source, tmp_path, "late", "--ready-after", str(after)))
    assert (late.cause, late.differs) == ("shape", "x: f32[8] → f32[5]")
    assert check("--ready", tmp_path / "late.pftrace").exit_code == 1
    run(source, tmp_path, "never", "--ready-after", "99")
    done = check("--ready", tmp_path / "never.pftrace")
    assert done.exit_code == 2
    assert "coldstep.ready() was not called in this process: it was to be after 99 steps, and there were" in done.stdout


METHOD = """
import torch, coldstep

class Net(torch.nn.Module):
    def forward(this, x, scale):
        return x * scale

net = torch.compile(Net(), backend="eager", dynamic=False)
net(torch.zeros(2, 4), 2)
coldstep.ready()
net(torch.zeros(3, 4), 2)
"""


@pytest.mark.torch
def test_the_call_of_a_method_is_told_whatever_it_calls_itself(tmp_path: Path) -> None:
    [call] = run(METHOD, tmp_path, stack="torch").readiness[0].calls
    assert call.code == "net(torch.zeros((3, 4), dtype=torch.float32), 2)"


LOADED = """
import sys, time
import jax, numpy as np
import coldstep

jax.config.update("jax_compilation_cache_dir", "cache")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

@jax.jit
def predict(x):
    time.sleep(PAUSE)  # while it is traced
    return (x * 2).sum()

x = np.zeros(8, np.float32)
predict(x)
jax.clear_caches()
coldstep.ready()
predict(x)
"""


@pytest.mark.jax
def test_a_load_from_disk_is_counted_apart(tmp_path: Path) -> None:
    [row] = run(LOADED.replace("PAUSE", "0"), tmp_path).readiness
    assert (row.compiles_after, row.loads_after) == (0, 1)
    trace = tmp_path / "program.pftrace"
    done = check("--ready", trace)
    assert done.exit_code == 0
    assert "note: 1 program was loaded from a cache after ready" in done.stdout
    done = check("--ready=strict", trace)
    assert done.exit_code == 1
    assert "predict was loaded from a cache after ready" in done.stdout
    assert check("--ready=loosely", trace).exit_code == 2


@pytest.mark.jax
def test_a_load_that_takes_as_long_as_a_compile_is_one_to_whoever_waits(tmp_path: Path) -> None:
    source = LOADED.replace("PAUSE", "0.15")
    run(source.partition("jax.clear_caches")[0], tmp_path)  # stores it
    trace = run(source.replace("predict(x)\njax.clear_caches()", "predict(x[:4])"), tmp_path)
    assert "after ready: predict was loaded from a disk cache, " in (tmp_path / "program.log").read_text()
    [row] = trace.readiness
    [violation] = row.violations
    assert (row.compiles_after, row.loads_after, row.loads) == (0, 1, [violation.compile])
    assert violation.cost_ns == row.loads_ns >= 150_000_000
    [call] = row.calls
    assert call.code is not None
    assert "predict(" in call.code
    assert re.search(r"1 program loaded from a cache, \d+ ms after ready", headline(trace))
    assert "nothing compiled" not in headline(trace)
    assert call.code in terminal.render(trace)
    judged = check("--ready", tmp_path / "program.pftrace")
    assert judged.exit_code == 1
    assert "predict was loaded from a disk cache after ready" in judged.stdout
    assert call.code in judged.stdout


NO_CALL = """
import jax, numpy as np
import coldstep

x = np.zeros(8, np.float32)

def serve(scale):
    return jax.jit(lambda x: x * scale)(x)

class Batch:
    def __init__(self, x):
        self.x = x

jax.tree_util.register_pytree_node(Batch, lambda b: ((b.x,), None), lambda _, parts: Batch(*parts))

@jax.jit
def predict(batch):
    return batch.x * 2

serve(1.0)
predict(Batch(x))
coldstep.ready()
serve(2.0)
predict(Batch(np.zeros(5, np.float32)))
"""


@pytest.mark.jax
def test_where_no_call_can_be_made_up_it_is_said_why(tmp_path: Path) -> None:
    trace = run(NO_CALL, tmp_path)
    [row] = trace.readiness
    why = {call.covers[0]: (call.code, call.why) for call in row.calls}
    new, other = (why[late.compile] for late in row.violations)
    assert new == (None, "scale was 1.0 in the warm-up and is 2.0, and no argument sets it")
    assert other[0] is None
    assert "batch is a Batch" in other[1]
    text = terminal.render(trace)
    assert "no call  scale was 1.0" in text
    assert "The warm-up lacks" not in text


BACKWARD = """
import torch
import torch._inductor.config
import coldstep

torch._inductor.config.force_disable_caches = True  # else it may only be loaded

@torch.compile
def loss(x):
    return (x * 2).relu().sum()

x = torch.ones(4, requires_grad=True)
loss(x)
coldstep.ready()
loss(x).backward()
"""


@pytest.mark.torch
def test_a_backward_that_the_warm_up_never_ran_is_late_by_itself(tmp_path: Path) -> None:
    trace = run(BACKWARD, tmp_path, stack="torch")
    [late] = violations(trace)
    assert (late.cause, late.differs) == ("first", "its backward was not run in the warm-up")
    [compile_] = trace.compiles
    assert 0 < late.cost_ns < compile_.wall_ns
    [call] = trace.readiness[0].calls
    assert (call.code, call.why) == (None, "call it as before, and run its backward")


CLEAN = """
import jax, jax.numpy as jnp
import coldstep

@jax.jit
def predict(x):
    return x * 2

xs = [jnp.zeros(size) for size in (8, 16)]
for x in xs:
    predict(x)
coldstep.ready()
for _ in range(50_000):
    for x in xs:
        predict(x)
"""


@pytest.mark.jax
def test_a_hundred_thousand_clean_requests_are_no_violation(tmp_path: Path) -> None:
    trace = run(CLEAN, tmp_path, "program", "--device", "off")
    [row] = trace.readiness
    assert (row.compiles_after, row.loads_after, row.calls) == (0, 0, [])
    assert check("--ready", tmp_path / "program.pftrace").exit_code == 0
    assert "nothing compiled after ready" in headline(trace)


# --- where it is shown --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a service that is said to be ready twice, and compiles after each."""
    folder = tmp_path_factory.mktemp("late")
    source = (HERE / "serving/jax/two_paddings.py").read_text()
    again = '\ncoldstep.ready("again")\nwith coldstep.step("request"):\n    decode(weights, padded(7))\n'
    run(source + again, folder)
    return folder / "program.pftrace"


@pytest.mark.jax
def test_each_ready_has_what_came_after_it(late: Path) -> None:
    first, second = coldstep.load(late).readiness
    assert [row.name for row in (first, second)] == ["ready", "again"]
    assert [row.compiles_after for row in (first, second)] == [2, 1]
    assert first.ready_ns < second.ready_ns


@pytest.mark.jax
def test_every_viewer_shows_the_calls(late: Path) -> None:
    trace = coldstep.load(late)
    code = [call.code or "" for row in trace.readiness for call in row.calls]
    assert len(code) == 3
    text, page = terminal.render(trace, width=200), html.page(trace)
    assert "After coldstep.ready() (3)" in text
    assert all(line in text for line in code)
    assert 'id="ready"' in page
    assert all(line.replace("'", "&#39;") in page for line in code)
    assert "3 compiles after ready" in headline(trace)
    log = late.with_suffix(".log").read_text().splitlines()
    assert [line for line in log if "coldstep: after again: decode was compiled, " in line]
    document = json.loads(json.dumps(trace.to_json()))
    assert [row["calls"][0]["delay_ns"] > 0 for row in document["readiness"]] == [True, True]
    found = [row for row in document["findings"] if row["kind"] == "after_ready"]
    assert {row["advice"] for row in found} == {f"Add to the warm-up: {line}" for line in code}


@pytest.mark.jax
def test_perfetto_shows_when_it_was_said_and_what_came_after(late: Path, engine: ModuleType) -> None:
    engine.assert_clean(late)
    (rows,) = engine.query(
        late,
        "select s.ts as ts, s.name as name from slice s join track t on s.track_id = t.id "
        "where (t.name = 'Steps' and s.name in ('ready', 'again')) or s.name = 'after_ready' order by s.ts",
    )
    assert [row["name"] for row in rows] == ["ready", "after_ready", "after_ready", "again", "after_ready"]


@pytest.mark.jax
def test_check_points_at_the_line_and_fails(late: Path) -> None:
    done = check("--ready", late)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == "over budget: 2 compiles after ready, none allowed"
    assert "advice    Add to the warm-up: decode(" in done.stdout


@pytest.mark.jax
def test_a_job_has_a_row_for_each_process_and_a_published_trace_has_no_source(late: Path, tmp_path: Path) -> None:
    other = run((HERE / "serving/jax/odd_max_tokens.py").read_text(), tmp_path)
    rewrite.merge([str(late), str(tmp_path / "program.pftrace")], str(tmp_path / "job.pftrace"))
    job = coldstep.load(tmp_path / "job.pftrace")
    assert [(row.process, row.compiles_after) for row in job.readiness] == [(0, 2), (0, 1), (1, 1)]
    assert {late.cause for row in job.readiness for late in row.violations} == {"shape"}
    assert job.readiness[2].calls[0].code == other.readiness[0].calls[0].code
    assert job.readiness[2].calls[0].covers[0].startswith("p1c")
    rewrite.strip(str(late), str(tmp_path / "public.pftrace"))
    public = coldstep.load(tmp_path / "public.pftrace")
    assert [row.compiles_after for row in public.readiness] == [2, 1]
    assert "padded" not in json.dumps(public.to_json()["readiness"])


@pytest.mark.jax
def test_what_never_said_that_it_was_ready_cannot_be_checked(tmp_path: Path) -> None:
    run(INFERRED, tmp_path)
    done = check("--ready", tmp_path / "program.pftrace")
    assert done.exit_code == 2
    assert "coldstep.ready() was not called in this process" in done.stdout


@pytest.mark.jax
def test_a_budget_file_can_ask_for_it(late: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.coldstep]\nready = true\n")
    assert check(late).exit_code == 1
    (tmp_path / "pyproject.toml").write_text('[tool.coldstep]\nready = "sometimes"\n')
    done = check(late)
    assert done.exit_code == 2
    assert "'sometimes' is none of true and strict" in done.stderr


@pytest.mark.jax
def test_the_workflow_of_a_service_names_the_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = HERE.parent / "examples"
    recorded, checked = re.findall(r"run: coldstep (.+)", (examples / "ci/serving.yml").read_text())
    monkeypatch.chdir(tmp_path)
    Path("warm_server.py").write_text((examples / "warm_server.py").read_text())
    code, said = warm.server("jax", sys.executable).run(["coldstep", *recorded.split()], tmp_path)
    assert code == 0, said
    done = check(*checked.split()[1:])
    assert done.exit_code == 1
    for call in ("classify(params, jnp.zeros((1, 64), jnp.int32))", "classify(params, jnp.zeros((2, 16), jnp.int32))"):
        assert f"Add to the warm-up: {call}" in done.stdout
        assert call in (HERE.parent / "docs/how-to/serving.md").read_text()
    assert "2 compiles after serving" in Path("coldstep.xml").read_text()


# --- values that are made up --------------------------------------------------------------------------------------

OF_JAX = [
    "f32[3]", "f32[]", "f32[] weak", "i32[] weak", "f32[2,3] weak", "bool[4]", "bf16[2]", "u8[1,2]", "key<fry>[]",
    "key<fry>[3]", "i32[2] committed", "f32[4] @cpu:1 committed", "f32[4,2] @P('d',None)/mesh(d=2) committed",
    "f32[4] @P('d')/mesh(d=2:auto) committed",
]  # fmt: skip
OF_TORCH = ["f32[3]", "i64[2,3]", "bool[4]", "f32[3] requires_grad", "f32[2,3] stride(1,2)", "bf16[1]", "f64[]"]


@pytest.mark.parametrize(
    ("stack", "types", "compiled"),
    [
        pytest.param("jax", OF_JAX, "jax.jit", marks=pytest.mark.jax),
        pytest.param("dynamo", OF_TORCH, 'torch.compile(backend="eager")', marks=pytest.mark.torch),
    ],
)
def test_a_value_that_is_made_up_is_compiled_for_as_its_type_says(
    stack: str, types: list[str], compiled: str, tmp_path: Path
) -> None:
    codes = [value(stack, Argument("x", {"x": text}, {}, {})) for text in types]
    nested = Argument(
        "x", {"x['a'][0]": types[0], "x['b']": types[1]}, {"x": "{'a', 'b'}", "x['a']": "list of 1"}, {}
    )  # fmt: skip
    codes.append(value(stack, nested))
    lines = [line for code in codes for line in imports(code)]
    definition = f"@{compiled}\ndef f{{0}}(x):\n    return (x,)\n\nf{{0}}({{1}})"
    calls = [definition.format(number, code) for number, code in enumerate(codes)]
    source = "\n".join(["import jax" if stack == "jax" else "import torch", *dict.fromkeys(lines), *calls])
    trace = run(source, tmp_path, stack={"dynamo": "torch"}.get(stack, stack))
    found = {row.function: [leaf.type for leaf in row.inputs or ()] for row in trace.compiles}
    assert [found[f"f{number}"] for number in range(len(types))] == [[text] for text in types]
    assert found[f"f{len(types)}"] == [types[0], types[1]]


def test_what_nobody_can_make_is_refused_and_nothing_hostile_is_written() -> None:
    deep = {f"x{'[0]' * depth}": "list of 1" for depth in range(3000)}
    hostile = [
        Argument("x", {"x": "Batch(a, b)"}, {}, {}),
        Argument("x", {"x": "__import__('os').system('true')"}, {}, {}),
        Argument("x", {"x": "f32[?,3]"}, {}, {}),
        Argument("x", {"x": "f32[4] @P(__import__('os'))/mesh(d=2) committed"}, {}, {}),
        Argument("x", {}, {"x": f"list of {'9' * 5000}"}, {}),
        Argument("x", {}, deep, {}),
    ]
    for argument in hostile:
        with pytest.raises((ValueError, RecursionError)):
            value("jax", argument)
