"""`coldstep log`: logs made without coldstep give the causes of the trace, whatever a CI system did to them."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import re
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import in_process
import pytest
import scenarios
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import logs

import coldstep
from coldstep.analysis.budgets import judge, parse
from coldstep.errors import TraceError
from coldstep.logs import convert
from coldstep.model import Trace
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.html import page
from coldstep_viewers.report.terminal import render

MARKS = {"jax": pytest.mark.jax, "torch": pytest.mark.torch, "torch_xla": pytest.mark.torch_xla}
PROGRAMS = {
    "jax": ("weak_type", "static_argnums", "precision_then_shape", "committed"),
    "torch": ("shape", "many_reasons", "break_then_shape", "nearest", "keyword_module"),
    "torch_xla": ("host_read",),
}
"""One for each way in which the logs speak; `python -m scenarios.logs` takes them all."""
LOGGED = [
    pytest.param(path, marks=MARKS[path.parent.name], id=f"{path.parent.name}-{path.stem}")
    for path in scenarios.PROGRAMS
    if path.stem in PROGRAMS.get(path.parent.name, ())
]

JAX_LOG = """\
TRACING CACHE MISS at /repo/train.py:20:12 (<module>):
  never seen function:
    train_step id=140506122650784 defined at /repo/train.py:8
Finished tracing train_step for jit in 0.007 sec
Compiling jit(train_step) with global shapes and types (ShapedArray(float32[8,4]),). Argument mapping: (UnspecifiedValue,).
Finished jaxpr to MLIR module conversion jit(train_step) in 0.004 sec
Finished XLA compilation of jit(train_step) in 0.500 sec
step 1 loss 0.25
TRACING CACHE MISS at /repo/train.py:20:12 (<module>):
  for train_step defined at /repo/train.py:8
  all previously seen cache keys differ. For the closest previous key:
step 2 loss 0.24
  different input types:
  * at batch['x'], now f32[5,4] and before f32[8,4]
Finished tracing train_step for jit in 0.002 sec
Compiling jit(train_step) with global shapes and types (ShapedArray(float32[5,4]),). Argument mapping: (UnspecifiedValue,).
Finished jaxpr to MLIR module conversion jit(train_step) in 0.008 sec
Finished XLA compilation of jit(train_step) in 0.250 sec
"""  # noqa: E501
TORCH_LOG = """\
I1121 07:47:53.363000 {pid} torch/fx/experimental/symbolic_shapes.py:4058] [0/0] create_env
V1121 07:47:53.733000 {pid} torch/_dynamo/guards.py:5396] [0/1] [__recompiles] Recompiling function train_step in /repo/train.py:2
V1121 07:47:53.733000 {pid} torch/_dynamo/guards.py:5396] [0/1] [__recompiles]     triggered by the following guard failure(s):
V1121 07:47:53.733000 {pid} torch/_dynamo/guards.py:5396] [0/1] [__recompiles]     - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual {size}
I1121 07:47:53.740000 {pid} torch/fx/experimental/symbolic_shapes.py:4058] [0/1] create_env
"""  # noqa: E501
START = (
    "V1121 07:47:53.362000 7 torch/_dynamo/convert_frame.py:2041] [{number}] torchdynamo start compiling train_step "
    "/repo/train.py:2, stack (elided 5 frames):\n"
)
LIMIT_LOG = """\
W1121 07:47:53.740000 7 torch/_dynamo/convert_frame.py:1994] [0/8] torch._dynamo hit config.recompile_limit (8)
W1121 07:47:53.740000 7 torch/_dynamo/convert_frame.py:1994] [0/8]    function: 'train_step' (/repo/train.py:2)
W1121 07:47:53.740000 7 torch/_dynamo/convert_frame.py:1994] [0/8]    last reason: 0/7: {reason}                   # def train_step(x, s):  # /repo/train.py:3 in train_step (HINT: make it dynamic)
"""  # noqa: E501
BREAK_LOG = """\
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [2/0] [__graph_breaks] Graph break in user code at /repo/train.py:10
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [2/0] [__graph_breaks] Graph Break Reason: call of print
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [2/0] [__graph_breaks] User code traceback:
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [2/0] [__graph_breaks]   File "/repo/train.py", line 15, in <module>
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [2/0] [__graph_breaks]     model(x)
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [2/0] [__graph_breaks]   File "/repo/train.py", line 10, in forward
V1121 07:47:53.363000 7 torch/_dynamo/symbolic_convert.py:5124] [2/0] [__graph_breaks]     print(x)
"""  # noqa: E501
TRACE_LOG = """\
V1121 07:47:53.361000 9 torch/_dynamo/utils.py:2350] {"chromium_event": {}, "frame_id": 0, "frame_compile_id": 0, "has_payload": "9a"}
	{
	"name": "dynamo",
	"ts": 1795247273352710.2,
	"args": {"compile_id": "0/0"},
	"ph": "B"
	}
V1121 07:47:53.362000 9 torch/_logging/structured.py:28] {"str": ["/repo/train.py", 1]}
V1121 07:47:53.362000 9 torch/_dynamo/convert_frame.py:303] {"dynamo_start": {"stack": [{"line": 2, "name": "f", "filename": 1}]}, "frame_id": 0, "frame_compile_id": 0}
V1121 07:47:53.382000 9 torch/_subclasses/meta_utils.py:514] {"describe_tensor": {"id": 0, "dtype": "torch.float32", "size": [8, 4], "stride": [4, 1], "describer_id": 0}, "frame_id": 0, "frame_compile_id": 0}
V1121 07:47:53.382000 9 torch/_subclasses/meta_utils.py:2271] {"describe_source": {"describer_id": 0, "id": 0, "source": "L['x']"}, "frame_id": 0, "frame_compile_id": 0}
V1121 07:47:53.391000 9 torch/_dynamo/utils.py:2350] {"chromium_event": {}, "frame_id": 0, "frame_compile_id": 0, "has_payload": "9b"}
	{
	"name": "dynamo",
	"ts": 1795247273452710.2,
	"args": {"compile_id": "0/0", "graph_op_count": 3},
	"ph": "E"
	}
"""  # noqa: E501
SHAPE = ("shape", "batch['x']", "f32[8,4]", "f32[5,4]")


def log(*words: str, text: str | bytes | None = None, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `coldstep log`; with `text` on stdin in a process of its own, since that is read as a descriptor."""
    if text is None:
        return in_process.run("log", *words, cwd=cwd)
    command = [sys.executable, "-m", "coldstep", "log", *words]
    data = text.encode() if isinstance(text, str) else text
    done = subprocess.run(command, cwd=cwd, input=data, capture_output=True, timeout=300)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def trace_of(text: str, folder: Path) -> coldstep.model.Trace:
    (folder / "ci.log").write_text(text)
    convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
    return coldstep.load(folder / "ci.pftrace")


# --- what the frameworks really log -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], logs.Captured]:
    """The run of a program with all logs on; each is run once."""
    return functools.cache(lambda program: logs.capture(program, tmp_path_factory.mktemp(program.stem)))


@pytest.mark.parametrize("program", LOGGED)
def test_a_log_gives_the_causes_of_the_trace(program: Path, captured: Callable[[Path], logs.Captured]) -> None:
    run = captured(program)
    assert run.live.recompiles
    assert logs.complaints(run) == []
    for kind in run.logs:
        trace = run.trace_of(kind)
        assert trace is not None
        assert [row.kind for row in trace.graph_breaks] == [row.kind for row in run.live.graph_breaks]
        assert trace.collectors[0].missing  # what a log cannot tell is said


def of_lines(run: logs.Captured, pattern: str, folder: Path) -> Trace:
    """What is told by those lines alone of a run's log that match from their beginning."""
    lines = run.logs[logs.TEXT].read_text().splitlines(keepends=True)
    (folder / "ci.log").write_text("".join(line for line in lines if re.match(pattern, line)))
    convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
    return coldstep.load(folder / "ci.pftrace")


@pytest.mark.torch
@pytest.mark.parametrize("program", ["shape", "many_reasons"])
def test_the_lines_of_recompiles_alone_tell_of_each(
    captured: Callable[[Path], logs.Captured], tmp_path: Path, program: str
) -> None:
    """With TORCH_LOGS=recompiles, which leaves warnings as they are, there is no word of what was compiled first."""
    run = captured(scenarios.HERE / "torch" / f"{program}.py")
    trace = of_lines(run, r"W|.*\[__recompiles\]", tmp_path)
    assert [(row.cause, row.argument) for row in trace.recompiles] == [
        (row.cause, row.argument) for row in run.live.recompiles
    ]
    assert trace.recompiles[0].previous is None
    text = render(trace)
    assert f"{len(trace.recompiles)} recompile" in text.splitlines()[0]
    assert "cost 0" not in text


@pytest.mark.torch
def test_pytorchs_warning_of_the_limit_is_enough_for_an_advice(
    captured: Callable[[Path], logs.Captured], tmp_path: Path
) -> None:
    """Every log has it, with no TORCH_LOGS at all."""
    run = captured(scenarios.HERE / "torch" / "many_reasons.py")
    [limit] = [row for row in of_lines(run, "W", tmp_path).findings if row.kind == "cache_limit"]
    assert limit.evidence[0].startswith("container, the last time: xs was ")
    assert limit.advice in {row.advice for row in run.live.recompiles if row.cause == "container"}


@pytest.mark.jax
def test_of_compiles_alone_it_is_not_said_whose_they_are(
    captured: Callable[[Path], logs.Captured], tmp_path: Path
) -> None:
    trace = of_lines(captured(scenarios.HERE / "jax" / "weak_type.py"), ".*(Finished|Compiling) ", tmp_path)
    assert len(trace.compiles) >= 2
    assert "eager" not in {row.origin for row in trace.compiles}
    assert any("JAX_EXPLAIN_CACHE_MISSES" in text for text in trace.collectors[0].missing)


@pytest.mark.torch_xla
def test_the_graph_of_a_backward_is_not_taken_for_a_recompile(captured: Callable[[Path], logs.Captured]) -> None:
    trace = captured(scenarios.HERE / "torch_xla" / "nothing_openxla_whole.py").trace_of(logs.TEXT)
    assert trace is not None
    assert sum("graph of a torch.compile call" in row.function for row in trace.compiles) == 2
    assert trace.recompiles == []
    assert any("PT_XLA_DEBUG_MAX_FRAME" in text for text in trace.collectors[0].missing)


@pytest.mark.torch
def test_a_structured_trace_is_as_good_as_a_trace(captured: Callable[[Path], logs.Captured], tmp_path: Path) -> None:
    run = captured(scenarios.HERE / "torch" / "shape.py")
    done = log(str(run.logs[logs.TRACE]), "-o", "log.pftrace", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = coldstep.load(tmp_path / "log.pftrace")
    assert scenarios.said(trace) == scenarios.said(run.live)
    assert [row.ir for row in trace.compiles] == [row.ir for row in run.live.compiles]
    assert sum(trace.intervals[0].phases.values()) > 0.5 * trace.run.wall_ns
    for budget, code in (("0", 1), ("1", 0)):
        check = in_process.run("check", "log.pftrace", "--max-recompiles", budget, cwd=tmp_path)
        assert check.returncode == code, check.stdout
        assert ("was f32[8,4], now f32[5,4]" in check.stdout) == (code == 1)


@pytest.mark.torch
def test_a_payload_is_whole_when_its_checksum_says_so(
    captured: Callable[[Path], logs.Captured], tmp_path: Path
) -> None:
    run = captured(scenarios.HERE / "torch" / "shape.py")
    whole = next(run.logs[logs.TRACE].iterdir()).read_text().removesuffix("\n")
    assert whole.endswith("\n\t}"), "it ends in a payload"
    for end, text in (("", whole), ("\n", whole), ("\r\n", whole.replace("\n", "\r\n"))):
        (tmp_path / "t.log").write_bytes((text + end).encode())
        done = log("t.log", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), end
    for cut in (whole[:-1], whole.rpartition("\n")[0] + "\n"):
        (tmp_path / "t.log").write_text(cut)
        done = log("t.log", cwd=tmp_path)
        assert done.returncode == 0
        assert "is cut" in done.stderr
        assert done.stdout


@pytest.mark.torch
def test_the_structured_trace_of_2024_is_read(captured: Callable[[Path], logs.Captured], tmp_path: Path) -> None:
    """Its lines name a thread and not the process, and it has no spans."""
    run = captured(scenarios.HERE / "torch" / "shape.py")
    text = next(run.logs[logs.TRACE].iterdir()).read_text()
    text = re.sub(r"^(V\d{4} \S+) \d+ ", r"\1 140144363024384 ", text, flags=re.MULTILINE)
    text = re.sub(r'^V[^\n]*"chromium_event"[^\n]*\n(?:\t[^\n]*\n)*', "", text, flags=re.MULTILINE)
    trace = trace_of(text, tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [
        (row.function, row.outcome) for row in run.live.compiles
    ]
    assert scenarios.said(trace) == scenarios.said(run.live)
    assert all(row.wall_ns > 0 for row in trace.compiles)
    [missing] = [row.missing for row in trace.collectors if row.name == "dynamo"]
    assert any("how long each phase of a compile took" in text for text in missing)


# --- what happens to logs -----------------------------------------------------------------------------------------


def test_an_explanation_is_read_through_other_lines(tmp_path: Path) -> None:
    trace = trace_of(JAX_LOG, tmp_path)
    assert scenarios.said(trace) == [SHAPE]
    assert trace.compiles[1].caller == coldstep.model.Location("/repo/train.py", 20, "<module>")
    assert sum(trace.intervals[0].phases.values()) == 771_000_000


@pytest.mark.parametrize(
    "mangle",
    [
        lambda line: f"2026-11-21T07:47:53.1234567Z {line}",
        lambda line: f"\x1b[36m[rank0]:\x1b[0m{line}",
        lambda line: f"train\tRun python train.py\t2026-11-21T07:47:53.1234567Z {line}",
        lambda line: f"trainer-0  | {line}",
        lambda line: f"{line}\r",
    ],
)
@pytest.mark.parametrize("text", [JAX_LOG, TORCH_LOG.format(pid=7, size=5)], ids=["jax", "torch"])
def test_what_is_put_around_the_lines_does_not_matter(text: str, mangle: Callable[[str], str], tmp_path: Path) -> None:
    plain = scenarios.said(trace_of(text, tmp_path))
    mangled = trace_of("".join(f"{mangle(line)}\n" for line in text.splitlines()), tmp_path)
    assert plain[0][0] == "shape"
    assert scenarios.said(mangled) == plain


def test_times_are_those_of_the_events_whatever_the_machine_calls_them(tmp_path: Path) -> None:
    trace = trace_of(TRACE_LOG.replace("V1121 07:", "V1121 15:"), tmp_path)
    assert [row.wall_ns for row in trace.compiles] == [pytest.approx(100_000_000, abs=1000)]
    assert trace.run.wall_ns == trace.compiles[0].wall_ns
    assert trace.run.started.startswith("2026-11-21T07:47:53.352")


@pytest.mark.parametrize("pids", [(70, 71), (1, 1)], ids=["one-machine", "containers"])
def test_ranks_are_told_apart_however_their_lines_mix(pids: tuple[int, int], tmp_path: Path) -> None:
    first, second = (
        [f"[rank{rank}]:{line}" for line in TORCH_LOG.format(pid=pid, size=size).splitlines()]
        for rank, pid, size in ((0, pids[0], 5), (1, pids[1], 3))
    )
    trace = trace_of("\n".join(line for pair in zip(first, second, strict=True) for line in pair) + "\n", tmp_path)
    assert [(row.rank, row.pid) for row in trace.processes] == [(0, pids[0]), (1, pids[1])]
    assert [(row.process, row.after) for row in trace.recompiles] == [
        (0, "size 5 at dimension 0"),
        (1, "size 3 at dimension 0"),
    ]
    report = render(trace)
    assert "train_step" in report
    assert "Ranks" not in report, "such a log does not tell how long anything took"
    assert "Where the time went" not in report


@pytest.mark.parametrize(
    ("turn_into", "compiles"),
    [
        (lambda line: line, 8),
        (lambda line: line if "create_env" not in line else "", 4),
        (lambda line: line.replace("[__recompiles]", "[__recompiles_verbose]") * ("create_env" not in line), 4),
        (lambda line: START.format(number=line.split("[")[1][:3]) + line if "create_env" in line else "", 8),
    ],
    ids=["recompiles,dynamic", "recompiles", "recompiles_verbose", "+dynamo"],
)
def test_after_a_reset_the_numbers_of_all_frames_begin_again(
    turn_into: Callable[[str], str], compiles: int, tmp_path: Path
) -> None:
    first = "".join(map(turn_into, TORCH_LOG.format(pid=7, size=5).splitlines(keepends=True)))
    other = re.sub(r"\b0/(?=[01][]:])", "1/", first).replace("train_step", "evaluate")
    trace = trace_of((first + other) * 2, tmp_path)
    assert Counter(row.function for row in trace.compiles) == {"train_step": compiles // 2, "evaluate": compiles // 2}


def test_one_process_may_be_told_of_in_two_files_and_two_may_have_one_number(tmp_path: Path) -> None:
    text = "".join(TORCH_LOG.format(pid=9, size=5).splitlines(keepends=True)[1:4])
    for name, content in (("a.log", text), ("b.log", TRACE_LOG), ("c.log", text.replace("train_step", "evaluate"))):
        (tmp_path / name).write_text(content)
    convert([str(tmp_path)], str(tmp_path / "out.pftrace"), lambda read, total: None)
    trace = coldstep.load(tmp_path / "out.pftrace")
    assert len(trace.processes) == 2
    assert [(row.process, row.function) for row in trace.compiles] == [
        (0, "f"), (1, "evaluate")
    ]  # fmt: skip


def test_a_files_name_tells_its_rank(tmp_path: Path) -> None:
    names = ["dedicated_log_torch_trace_rank_0_6u3fubwl.log", "dedicated_log_torch_trace_rank_1.log"]
    for pid, name in enumerate(names, 8):
        (tmp_path / name).write_text(TRACE_LOG.replace(" 9 torch/", f" {pid} torch/"))
    convert([str(tmp_path)], str(tmp_path / "ci.pftrace"), lambda read, total: None)
    assert [row.rank for row in coldstep.load(tmp_path / "ci.pftrace").processes] == [0, 1]


def test_a_limit_that_raised_is_told_as_that(tmp_path: Path) -> None:
    said = '"fail_type": "FailOnRecompileLimitHit", "fail_reason": "Hard failure due to fullgraph=True"'
    trace = trace_of(TRACE_LOG.replace('"graph_op_count": 3', said), tmp_path)
    assert [row.outcome for row in trace.compiles] == ["limit"]
    [finding] = [row for row in trace.findings if row.kind == "cache_limit"]
    assert finding.text == (
        "f reached its limit of variants: no more are compiled, and from here on calls that fit none of them fail, "
        "since fullgraph=True"
    )


def test_a_recompile_that_many_processes_have_alike_is_told_once(tmp_path: Path) -> None:
    lines = TORCH_LOG.format(pid=1, size=5).splitlines()
    for form, where in (("[rank{}]:{}", "in ranks 0-3"), ("trainer-{} | {}", "in processes 0-3")):
        trace = trace_of("".join(form.format(n, line) + "\n" for line in lines for n in range(4)), tmp_path)
        assert len(trace.recompiles) == len(trace.processes) == 4
        report = render(trace)
        assert "Recompiles (4)" in report
        assert report.count(", see 1 above") == 1
        assert where in report
        assert report.count("dynamo partial") == 1
        assert render(trace, every=True).count("cause  ") == 4


@pytest.mark.parametrize(
    "form",
    [
        "(Worker pid={}) {}",
        "(train_fn pid={}, ip=10.0.0.2) {}",
        "trainer-{}  | {}",
        "[pod/trainer-{}/main] {}",
        "[gw{}] {}",
        "worker-{}: {}",
        "{}: {}",
        "[1,{}]<stderr>:{}",
        "tests ({})\tRun pytest\t2026-11-21T07:47:53.1234567Z {}",
        '{{"pid": {}, "message": {!r}}}',
    ],
)
def test_workers_are_told_apart_by_what_their_launcher_puts_before_their_lines(form: str, tmp_path: Path) -> None:
    """JAX's lines name no process."""
    others = JAX_LOG.replace("5,4", "3,4")
    pairs = zip(JAX_LOG.splitlines(), others.splitlines(), strict=True)
    if "!r" in form:
        pairs = ((json.dumps(one), json.dumps(other)) for one, other in pairs)
    lines = [form.replace("!r", "").format(n, line) for pair in pairs for n, line in enumerate(pair, 5)]
    trace = trace_of("".join(f"{line}\n" for line in lines), tmp_path)
    assert [(row.process, *found) for row, found in zip(trace.recompiles, scenarios.said(trace), strict=True)] == [
        (0, *SHAPE),
        (1, *SHAPE[:3], "f32[3,4]"),
    ]


def test_what_a_log_does_not_tell_is_said_and_passes_no_check(tmp_path: Path) -> None:
    done = log("-", "-o", "ci.pftrace", text=TORCH_LOG.format(pid=7, size=5), cwd=tmp_path)
    assert done.returncode == 0
    assert "graph breaks (no line of TORCH_LOGS=graph_breaks" in " ".join(done.stdout.split())
    assert in_process.run("check", "ci.pftrace", "--max-graph-breaks", "0", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("text", [JAX_LOG, TORCH_LOG.format(pid=7, size=5)], ids=["jax", "torch"])
def test_a_report_speaks_of_no_more_than_a_log_tells(text: str, tmp_path: Path) -> None:
    trace = trace_of(text, tmp_path)
    for report in (render(trace), page(trace).partition('<script type="application/json"')[0]):
        assert "train_step" in report
        for senseless in ("before the trace", "start of the process", "No step was marked", "unattributed</"):
            assert senseless not in report
        assert ("XLA compilation" in report) == (text == JAX_LOG)
    assert "unattributed" not in render(trace)


def test_the_same_words_give_the_same_cause_as_in_a_trace(tmp_path: Path) -> None:
    words = ("x.n == 2", "module_attribute"), ("GLOBAL_STATE changed: grad_mode ", "grad_mode"), ("m is None", "type")
    for text, cause in words:
        line = re.sub(r"0/0: tensor.*", f"0/0: {text}", TORCH_LOG.format(pid=7, size=5))
        assert [row.cause for row in trace_of(line, tmp_path).recompiles] == [cause]


def test_a_limit_alone_is_told_as_the_last_of_the_compiles_that_were_asked_for(tmp_path: Path) -> None:
    trace = trace_of(LIMIT_LOG.format(reason="s == 'test'"), tmp_path)
    [limit] = [row for row in trace.findings if row.kind == "cache_limit"]
    assert limit.evidence[:2] == [
        "python_scalar, the last time: s was 'test'",
        "0/7: s == 'test'  # def train_step(x, s):  # /repo/train.py:3 in train_step (HINT: make it dynamic)",
    ]
    assert "tensor" not in limit.advice, "a text can't be one"
    assert headline(trace) == "no steps marked; 1 refused compile; dynamo was observed only in part"
    assert not any("recompiles: none happened" in text for text in trace.collectors[0].missing)


def test_the_guards_of_a_limit_are_told_in_a_line_each_and_a_hint_once(tmp_path: Path) -> None:
    _, heading, *_ = TORCH_LOG.format(pid=7, size=5).replace("[0/1]", "[0/8]").splitlines()
    begin = heading.partition("Recompiling")[0]
    reason = f"s.n == 2{' ' * 40}# s.n * x  # /repo/train.py:3 in forward (HINT: make it dynamic)"
    stack = f"{begin}    - User stack trace:\n{begin}    -   File ...\n"
    guards = "".join(f"{begin}    - 0/{number}: {reason}\n{stack}" for number in (7, 6))
    trace = trace_of(f"{heading}\n{guards}{LIMIT_LOG.format(reason='s.n == 2')}", tmp_path)
    [limit] = [row for row in trace.findings if row.kind == "cache_limit"]
    said = "s.n == 2  # s.n * x  # /repo/train.py:3 in forward"
    assert limit.evidence[1:3] == [f"0/7: {said} (HINT: make it dynamic)", f"0/6: {said}"]


def test_where_the_log_is_silent_the_advice_is_to_let_it_speak(tmp_path: Path) -> None:
    plain = TORCH_LOG.format(pid=7, size=5)
    silent = "".join(line for line in plain.splitlines(keepends=True) if "__recompiles" not in line)
    for text in (silent, silent * 2):  # before and after a reset
        trace = trace_of(text, tmp_path)
        unknown = [row for row in trace.recompiles if row.cause == "unknown"]
        assert unknown
        assert {row.advice for row in unknown} == {"Run it again with TORCH_LOGS=recompiles: then the log shows why."}


def test_beside_known_causes_nothing_is_said_of_an_unknown_one(tmp_path: Path) -> None:
    lines = TORCH_LOG.format(pid=7, size=5).splitlines(keepends=True)
    again = ["".join(lines[1:]).replace("[0/1]", f"[0/{number}]") for number in (2, 3)]
    trace = trace_of("".join([*lines, *again, lines[0].replace("[0/0]", "[0/4]")]), tmp_path)
    [offender] = [row for row in trace.findings if row.kind == "repeat_offender"]
    assert offender.text.startswith("train_step recompiled 4 times: x was size 8")
    assert "unknown" not in offender.text
    assert "\n" not in offender.advice
    assert offender.evidence[1] == "unknown, once"


def test_a_graph_break_names_its_frame_where_only_one_can_be_meant(tmp_path: Path) -> None:
    other = BREAK_LOG.replace("in <module>", "in main")  # which may be what was compiled, with forward inlined
    for text, function in ((BREAK_LOG, "forward"), (other, "frame 2")):
        assert [row.function for row in trace_of(text, tmp_path).compiles] == [function]


def test_an_entry_that_jax_warns_it_could_not_write_is_none(tmp_path: Path) -> None:
    key = "jit_train_step-36e864bd5ddd32d4b3490cfd"
    said = (
        f"PERSISTENT COMPILATION CACHE MISS for 'jit_train_step' with key '{key}'\n"
        f"Writing jit_train_step to persistent compilation cache with key '{key}'\n"
        "/venv/jax/_src/compiler.py:870: UserWarning: Error writing persistent compilation cache entry for "
        "'jit_train_step': OSError: [Errno 28] No space left on device\n"
        "  warnings.warn(\n"
    )
    line = "Finished XLA compilation of jit(train_step) in 0.500 sec\n"
    [cache] = trace_of(JAX_LOG.replace(line, said + line, 1), tmp_path).compiles[0].caches
    assert (cache.state, cache.written, cache.why) == ("miss", False, "full")
    assert cache.why_text == "OSError: [Errno 28] No space left on device"


def test_of_jax_pmaps_programs_a_log_claims_no_absence_of_recompiles(tmp_path: Path) -> None:
    lines = "".join(JAX_LOG.splitlines(keepends=True)[3:7]).replace("train_step", "_fun")  # which JAX does not explain
    trace = trace_of(JAX_LOG + 2 * lines, tmp_path)
    assert [(row.function, row.origin) for row in trace.compiles[-2:]] == [("_fun", "user")] * 2
    assert judge([trace], parse({"max_recompiles": 1})).word == "unknown"
    [row] = trace.collectors
    assert (row.state, "jax.pmap" in row.missing[0]) == ("partial", True)


def test_an_argument_that_is_named_once_is_named_always(tmp_path: Path) -> None:
    lines = JAX_LOG.splitlines(keepends=True)
    third = "".join(lines[8:]).replace("5,4", "3,4")  # JAX compares with the nearest, not with the last
    trace = trace_of(JAX_LOG + third, tmp_path)
    assert scenarios.said(trace) == [SHAPE, ("shape", "batch['x']", "f32[5,4]", "f32[3,4]")]


# --- input that is none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said", "code"),
    [
        (b"", "is empty", 2),
        (b"hello\nworld\n", "holds no line of TORCH_LOGS", 2),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is binary", 2),
        (TORCH_LOG.format(pid=7, size=5).encode()[:-40], "is cut in the middle of a line", 0),
        (JAX_LOG.encode()[:-60], "is cut", 0),
        (TRACE_LOG.splitlines(True)[7].encode(), "holds no compile", 2),
    ],
)
def test_what_is_no_whole_log_gets_one_line(content: bytes, said: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "ci.log").write_bytes(content)
    for words, text in ((["ci.log"], None), (["-"], content)):
        done = log(*words, text=text, cwd=tmp_path)
        assert done.returncode == code
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert said in done.stderr


def test_a_cut_log_is_diagnosed_up_to_the_cut_and_passes_no_check(tmp_path: Path) -> None:
    (tmp_path / "ci.log").write_text(TORCH_LOG.format(pid=7, size=5)[:-40])
    done = log("ci.log", cwd=tmp_path)
    assert done.returncode == 0, "the report is good"
    assert "Recompiles (1)" in done.stdout
    assert coldstep.load(tmp_path / "ci.pftrace").run.ended == "killed"


def test_missing_files_and_folders_get_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, said in (("absent.log", "cannot read absent.log"), ("empty", "empty is an empty folder")):
        done = log(path, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr
    (tmp_path / "ci.log").write_text(JAX_LOG)
    done = log("ci.log", "-o", "no/such/folder.pftrace", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = log("ci.log", "-o", "ci.log", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "ci.log").read_text() == JAX_LOG


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_log_however_damaged_ends_in_a_traceback(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = bytearray((TORCH_LOG.format(pid=7, size=5) + TRACE_LOG + JAX_LOG).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=10))
    folder = tmp_path_factory.getbasetemp()
    (folder / "ci.log").write_bytes(text)
    with contextlib.suppress(TraceError):
        convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
        assert coldstep.load(folder / "ci.pftrace").processes


def test_a_long_log_streams_in_bounded_memory_with_progress(tmp_path: Path) -> None:
    noise = b"step 12 loss 0.1234, as a script prints\n" * 12_000
    with (tmp_path / "ci.log").open("wb") as file:
        for _ in range(75):
            file.write(noise)
        file.write(JAX_LOG.encode())
    size = (tmp_path / "ci.log").stat().st_size
    more = 20 << 20  # of what may be mapped: neither the log fits, nor forty bytes for each of its lines
    script = f"""
import json, resource
import psutil
from coldstep.logs import convert

calls = []
convert(["small.log"], "small.pftrace", lambda read, total: None)
resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + {more},) * 2)
convert(["ci.log"], "ci.pftrace", lambda read, total: calls.append((read, total)))
print(json.dumps(calls))
"""
    (tmp_path / "small.log").write_text(JAX_LOG)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert more < size
    calls = json.loads(done.stdout)
    assert len(calls) == size >> 24, "one for each 16 MiB"
    assert [read for read, _ in calls] == sorted({read for read, _ in calls})
    assert {total for _, total in calls} == {size}
    assert scenarios.said(coldstep.load(tmp_path / "ci.pftrace")) == [SHAPE]


def test_a_pipe_is_followed_until_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coldstep", "log", "-", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(JAX_LOG.encode())
        process.stdin.flush()
        unread, wait_until = bytearray(4), time.monotonic() + 100
        while time.monotonic() < wait_until:  # the pipe is empty, and the process waits for more
            fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            if not int.from_bytes(unread, sys.byteorder) and state == "S":
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        report = process.communicate(timeout=100)[0]
    assert process.returncode == 0
    assert [row["cause"] for row in json.loads(report)["recompiles"]] == ["shape"]


def test_json_is_the_document_of_the_report(tmp_path: Path) -> None:
    done = log("-", "--json", text=JAX_LOG, cwd=tmp_path)
    assert [row["cause"] for row in json.loads(done.stdout)["recompiles"]] == ["shape"]
    assert (tmp_path / "log.pftrace").exists()
