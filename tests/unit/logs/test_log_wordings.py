"""What frameworks print, in the words of each version that is promised: read by `coldstep log` as in any other version.

`log_specimens` has what those versions printed of one small program each; below are lines as people cut and post them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import coldstep
from coldstep.logs import convert
from coldstep.model import Trace
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.terminal import render

SPECIMENS = Path(__file__).parents[2] / "log_specimens"
OLD_JAX = ("0.4.6", "0.4.13", "0.4.20", "0.4.23")
"""They explain no cache miss."""
JAX_KINDS = "dtype pytree keyword keyword keyword config static_argument new_function"
"""What the program provokes, in turn; in the fifth call a weak type differs, too."""
JAX_LESS = {
    "0.4.25": "dtype pytree pytree keyword weak_type config",
    **dict.fromkeys(
        ("0.4.28", "0.4.31", "0.4.33", "0.4.35", "0.4.38", "0.5.3"),
        "dtype pytree pytree keyword weak_type config unknown new_function",
    ),
    **dict.fromkeys(("0.11.0", "0.12.0"), JAX_KINDS.replace("static_argument", "unknown")),
}
"""In the words of a version, where they say less, or name another key that is as near."""
TORCH_KINDS = (
    "scale:python_scalar scale:type mode:grad_mode mode:dtype mode:dtype mode:requires_grad forward:module_attribute "
    "forward:type forward:container forward:type f:identity held:shape held:shape"
)
_2_7 = TORCH_KINDS.replace("forward:type forward:container", "forward:identity forward:container")
_2_6 = _2_7.replace("forward:type", "forward:container")
_UP_TO_2_3 = (
    "scale:type scale:type mode:{mode} mode:dtype mode:requires_grad forward:training_mode forward:identity "
    "forward:container forward:type f:identity {held}held:layout held:layout"
)
TORCH_LESS = {
    "2.1.2": _UP_TO_2_3.format(mode="grad_mode mode:grad_mode", held="held:identity "),
    "2.2.2": _UP_TO_2_3.format(mode="unknown mode:dtype", held="held:identity "),
    "2.3.1": _UP_TO_2_3.format(mode="unknown mode:dtype", held=""),
    "2.7.1": _2_7,
    "2.6.0": _2_6,
    "2.5.1": _2_6.replace("scale:type", "scale:python_scalar"),
    "2.4.1": (
        "scale:python_scalar scale:python_scalar mode:grad_mode mode:dtype mode:dtype mode:requires_grad "
        "forward:training_mode forward:module_attribute forward:identity forward:container forward:type f:identity "
        "held:layout held:layout"
    ),
}
BREAKS = "item:data_dependent prints:side_effect manual:explicit inner:unsupported_call"


def traced(text: str, folder: Path) -> Trace:
    """The trace that a log makes."""
    (folder / "ci.log").write_text(text)
    convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
    return coldstep.load(folder / "ci.pftrace")


def specimens(framework: str, kind: str) -> list[Path]:
    """Those that one program printed on each release: `torch-2.4.1-kinds.log`."""
    paths = sorted(SPECIMENS.glob(f"{framework}-*.*.*-{kind}.log"))
    return [path for path in paths if path.stem.split("-", 2)[::2] == [framework, kind]]


def version(path: Path) -> str:
    return path.stem.split("-", 2)[1]


def recompiled(trace: Trace) -> list[str]:
    functions = {row.id: row.function for row in trace.compiles}
    return [f"{functions[row.compile]}:{row.cause}" for row in trace.recompiles]


def each(framework: str, kind: str, *without: str) -> Callable[[Callable[[Path, Path], None]], Callable[[Path], None]]:
    """Run a test on what every release has printed of this kind."""
    paths = [path for path in specimens(framework, kind) if version(path) not in without]
    assert paths

    def over(test: Callable[[Path, Path], None]) -> Callable[[Path], None]:
        def of_each(tmp_path: Path) -> None:
            for path in paths:
                test(path, tmp_path)

        return of_each

    return over


# --- JAX, by version ----------------------------------------------------------------------------------------------


@each("jax", "shape")
def test_jaxs_compiles_and_their_causes(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [("train_step", "compiled")] * 2
    assert [[each.type for each in row.inputs or ()] for row in trace.compiles] == [
        ["f32[3,4]", "f32[4,2]"], ["f32[3,6]", "f32[6,2]"]
    ]  # fmt: skip
    told = [(row.cause, row.argument, row.before, row.after) for row in trace.recompiles]
    assert told == ([] if version(path) in OLD_JAX else [("shape", "w", "f32[3,4]", "f32[3,6]")])
    assert trace.run.ended == "ok"


@each("jax", "kinds", *OLD_JAX)
def test_jaxs_words_on_each_cause(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    assert [row.cause for row in trace.recompiles] == JAX_LESS.get(version(path), JAX_KINDS).split()


@each("jax", "pmap", "0.8.3", "0.9.2", "0.10.2", "0.11.0", "0.12.0")
def test_what_jaxs_pmap_compiles(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [("spread", "compiled")] * 2
    assert [row.inputs[0].type for row in trace.compiles if row.inputs] == ["f32[2,3]", "f32[2,5]"]


# --- PyTorch, by version ------------------------------------------------------------------------------------------


@each("torch", "kinds")
def test_pytorchs_words_on_each_cause(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    assert recompiled(trace) == TORCH_LESS.get(version(path), TORCH_KINDS).split()
    assert {row.outcome for row in trace.compiles} == {"compiled"}


@each("torch", "limit-recompiles")
def test_pytorchs_limit_is_told_with_the_recompiles_before_it(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    assert recompiled(trace) == ["score:shape"] * 2
    assert [(row.function, row.outcome) for row in trace.compiles] == [
        ("score", "compiled"), ("score", "compiled"), ("score", "limit")
    ]  # fmt: skip
    [limit] = [row.text for row in trace.findings if row.kind == "cache_limit"]
    assert limit.startswith("score reached its limit of 3 variants (")


@each("torch", "breaks")
def test_pytorchs_words_on_graph_breaks(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    told = [f"{row.function}:{row.kind}" for row in trace.graph_breaks]
    assert [words for words in told if words in BREAKS] == BREAKS.split()
    assert all("from user code" not in row.reason for row in trace.graph_breaks)


@each("torch", "dynamic")
def test_pytorch_says_which_sizes_are_open(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    assert recompiled(trace) == ["merge:shape", "swap:shape"]
    assert len(trace.compiles) == 5
    assert all("dynamic from now on" in row.evidence[-1] for row in trace.recompiles)


@each("torch", "suppressed")
def test_what_pytorch_gives_up_is_told_with_its_error(path: Path, tmp_path: Path) -> None:
    [compiled] = traced(path.read_text(), tmp_path).compiles
    assert (compiled.function, compiled.outcome) == ("score", "failed")
    [failed] = [row for row in coldstep.load(tmp_path / "ci.pftrace").findings if row.kind == "failed_compile"]
    assert failed.text.count("no kernel for this") == 1


# --- logs that are cut --------------------------------------------------------------------------------------------

AGAIN = """\
WARNING:2025-09-12 13:20:40,045:jax._src.interpreters.partial_eval:2167: TRACING CACHE MISS at /repo/t.py:20:8 (main):
  for step defined at /repo/t.py:8
  all previously seen cache keys {differ}
  * key with different input types:
    * at x, now f32[6] and before f32[4]
WARNING:2025-09-12 13:20:40,055:jax._src.dispatch:204: Finished tracing step for jit in 0.002 sec
WARNING:2025-09-12 13:20:40,056:jax._src.interpreters.pxla:1865: Compiling jit(step) with global shapes and types (ShapedArray(float32[6]),). Argument mapping: (UnspecifiedValue,).
WARNING:2025-09-12 13:20:40,057:jax._src.dispatch:204: Finished jaxpr to MLIR module conversion jit(step) in 0.001 sec
WARNING:2025-09-12 13:20:40,095:jax._src.dispatch:204: Finished XLA compilation of jit(step) in 0.03 sec
"""  # noqa: E501
RECOMPILING = """\
V0912 13:20:43.118000 140 torch/_dynamo/guards.py:2609] {numbers}[{kind}] Recompiling function scale in /repo/net.py:37
V0912 13:20:43.118000 140 torch/_dynamo/guards.py:2609] {numbers}[{kind}]     triggered by the following guard failure(s):
V0912 13:20:43.118000 140 torch/_dynamo/guards.py:2609] {numbers}[{kind}]     guard 0 failures:
V0912 13:20:43.118000 140 torch/_dynamo/guards.py:2609] {numbers}[{kind}]     - {reason}
"""  # noqa: E501
LIMIT = "W0912 13:20:45.118000 4401 torch/_dynamo/convert_frame.py:1571] [0/8] {words}\n"


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coldstep", "check", "ci.pftrace", "--max-recompiles", "0"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("differ", ["are different. Closest previous key:", "differ. For the closest previous key:"])
def test_jax_has_compiled_before_what_is_no_function_that_it_has_never_seen(differ: str, tmp_path: Path) -> None:
    trace = traced(AGAIN.format(differ=differ), tmp_path)
    [row] = trace.recompiles
    assert (row.cause, row.argument, row.before, row.after) == ("shape", "x", "f32[4]", "f32[6]")
    assert "variant 2 or later" in render(trace)
    checked = check(tmp_path)
    assert checked.returncode == 2
    assert "the log begins after the first compile" in checked.stdout


@pytest.mark.parametrize("kind", ["__recompiles", "__recompiles_verbose"])
@pytest.mark.parametrize("numbers", ["[0/2] ", ""], ids=["numbers", "no-numbers"])
def test_the_words_recompiling_function_are_enough(kind: str, numbers: str, tmp_path: Path) -> None:
    reason = "tensor 'L['x']' size mismatch at index 0. expected 6, actual 9"
    text = RECOMPILING.format(numbers=numbers, kind=kind, reason=reason)
    for log, cause in ((text, "shape"), (text.splitlines(keepends=True)[0], "unknown")):
        trace = traced(log, tmp_path)
        assert recompiled(trace) == [f"scale:{cause}"]
        assert check(tmp_path).returncode != 0


def test_the_number_of_a_compile_is_that_of_its_variant(tmp_path: Path) -> None:
    text = RECOMPILING.format(numbers="[3/36] ", kind="__recompiles", reason="3/35: n == 5")
    trace = traced(text, tmp_path)
    assert [(row.reason, row.variant.n) for row in trace.compiles] == [("recompile", 37)]
    assert "variant 37" in render(trace)


@pytest.mark.parametrize(
    ("words", "function"),
    [
        ("   last reason: 0/7: tensor 'x' size mismatch at index 0. expected 11, actual 12", "frame 0"),
        ("   function: 'scale' (/repo/net.py:37)", "scale"),
        ("To log all recompilation reasons, use TORCH_LOGS=\"recompiles\".", "frame 0"),
        ("To diagnose recompilation issues, see https://pytorch.org/docs/main/compile.html", "frame 0"),
    ],
)  # fmt: skip
def test_a_part_of_the_warning_at_the_limit_is_a_refused_compile(words: str, function: str, tmp_path: Path) -> None:
    trace = traced(LIMIT.format(words=words), tmp_path)
    assert [(row.function, row.outcome, row.variant.limit) for row in trace.compiles] == [(function, "limit", 8)]
    assert trace.recompiles == []
    assert [row.kind for row in trace.findings if row.kind == "cache_limit"] == ["cache_limit"]


def test_the_warning_of_pytorch_2_0_at_the_limit_is_read(tmp_path: Path) -> None:
    text = """\
[2023-04-14 10:41:12,330] torch._dynamo.convert_frame: [WARNING] torch._dynamo hit config.cache_size_limit (64)
   function: 'forward' (/repo/net.py:37)
   reasons:  ["tensor 'x' strides mismatch at index 0. expected 562500, actual 2447991"]
to diagnose recompilation issues, see https://pytorch.org/docs/master/dynamo/troubleshooting.html.
"""
    trace = traced(text, tmp_path)
    assert [(row.function, row.outcome, row.variant.limit) for row in trace.compiles] == [("forward", "limit", 64)]
    [limit] = (row for row in trace.findings if row.kind == "cache_limit")
    assert "tensor 'x' strides mismatch at index 0. expected 562500, actual 2447991" in limit.evidence
    unset = traced(
        text.replace("strides mismatch at index 0. expected 562500, actual 2447991", "['k'] is None"), tmp_path
    )
    [limit] = (row for row in unset.findings if row.kind == "cache_limit")
    assert "tensor 'x' ['k'] is None" in limit.evidence
    lost = traced(text.partition("\n")[0] + "\n", tmp_path)
    assert any("the next line of the log is lost" in words for words in lost.collectors[0].missing)


def test_another_object_is_told_by_its_place(tmp_path: Path) -> None:
    reasons = [f"0/{number}: ___check_obj_id(self.attn, 14000002)" for number in range(3)]
    lines = [
        RECOMPILING.format(numbers=f"[0/{number}] ", kind="__recompiles", reason=reason)
        for number, reason in enumerate(reasons, 1)
    ]
    trace = traced("".join(lines), tmp_path)
    told = [row.text for row in trace.findings if row.kind in ("recompile", "repeat_offender")]
    assert len(told) == 4
    assert all("another object in self.attn" in text for text in told)
    assert not any("none" in text for text in told)
    assert "none, now none" not in render(trace)
    assert "another object in self.attn" in check(tmp_path).stdout


def test_the_line_that_made_a_size_a_constant_is_evidence(tmp_path: Path) -> None:
    stamp = "I0912 13:20:44.118000 140 torch/fx/experimental/symbolic_shapes.py:1] [0/1] "
    text = RECOMPILING.format(
        numbers="[0/1] ", kind="__recompiles", reason="0/0: tensor 'x' size mismatch at index 1. expected 4, actual 6"
    ) + "".join(
        f"{stamp}{words}\n"
        for words in (
            "create_env",
            "create_symbol s1 = 6 for L['x'].size()[1] [2, int_oo] return x  # swap.py:19 in g",
            "set_replacement s1 = 6 (range_refined_to_singleton) VR[6, 6]",
            "eval Eq(s1, 6) [guard added] y = t.f()  # swap.py:19 in g (_subclasses/fake_impls.py:1178 in infer_size)",
        )
    )
    [row] = traced(text, tmp_path).recompiles
    assert any("y = t.f()  # swap.py:19 in g" in text for text in row.evidence)


def test_of_a_parameter_that_changes_its_size_the_advice_is_pytorchs(tmp_path: Path) -> None:
    reason = (
        "0/0: tensor 'G[0]' size mismatch at index 1. expected 4, actual 6. Guard failed on a parameter, "
        "consider using torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on parameters."
    )
    [row] = traced(RECOMPILING.format(numbers="[0/1] ", kind="__recompiles", reason=reason), tmp_path).recompiles
    assert "force_parameter_static_shapes = False" in row.advice
    assert "mark_dynamic" not in row.advice


def test_a_frame_that_pytorch_gives_up_is_told_as_that(tmp_path: Path) -> None:
    stamp = "V0912 13:20:45.118000 140 torch/_dynamo/convert_frame.py:516] [0/0] [__graph_breaks] "
    words = [
        "Graph break: skip: from user code at:",
        '  File "/repo/net.py", line 12, in f',
        "    for i in range(n):",
        "Traceback (most recent call last):",
        '  File "/venv/lib/python3.10/site-packages/torch/_dynamo/exc.py", line 221, in unimplemented',
        "torch._dynamo.exc.SkipFrame: graph break in for/while loop",
    ]
    [row] = traced("".join(f"{stamp}{line}\n" for line in words), tmp_path).graph_breaks
    assert (row.kind, row.reason) == ("skipped_frame", "graph break in for/while loop")


# --- torch_xla ----------------------------------------------------------------------------------------------------

REPORT = """\
Compilation Analysis: ================================================================================
Compilation Analysis: Compilation Cause
Compilation Analysis:   {cause}
Compilation Analysis: Graph Info:
Compilation Analysis:   Graph Hash: {hash}
Compilation Analysis:   Number of Graph Inputs: 2
Compilation Analysis:   Number of Graph Outputs: 1
Compilation Analysis: Python Frame Triggered Execution:
Compilation Analysis:   mark_step (/w/pytorch/xla/torch_xla/core/xla_model.py:1008)
Compilation Analysis:   step (/repo/t.py:31)
Compilation Analysis: --------------------------------------------------------------------------------
"""


def test_two_graphs_of_one_line_and_two_causes_are_no_recompile(tmp_path: Path) -> None:
    causes = "torch_xla.compile clear the pending graph prior calling the target function", "torch_xla.compile"
    text = "".join(REPORT.format(cause=cause, hash=f"1{number}") for number, cause in enumerate(causes))
    trace = traced(text, tmp_path)
    assert len(trace.compiles) == 2
    assert trace.recompiles == []
    assert [row.location for row in trace.compiles] == [coldstep.model.Location("/repo/t.py", 31, "step")] * 2


def test_a_report_of_torch_xlas_that_is_cut_tells_what_it_has(tmp_path: Path) -> None:
    text = "".join(REPORT.format(cause="user torch_xla.sync", hash="ab").splitlines(keepends=True)[:-1])
    trace = traced(text, tmp_path)
    assert [row.location for row in trace.compiles] == [coldstep.model.Location("/repo/t.py", 31, "step")]
    assert trace.run.ended == "killed"


# --- what is printed with no setting at all ------------------------------------------------------------------------

RETRACING = (
    "WARNING:tensorflow:{n} out of the last {m} calls to <function train_one at 0x7f0a> triggered tf.function {why}\n"
)
WHY = (
    "retracing. Tracing is expensive and the excessive number of tracings is likely due to passing python objects.",
    "retracing. Tracing is expensive and the excessive number of tracings could be due to (1) creating @tf.function "
    "repeatedly in a loop, (2) passing tensors with different shapes, (3) passing Python objects instead of tensors.",
)


@pytest.mark.parametrize("why", WHY, ids=["2.1", "2.9"])
def test_tensorflows_warning_tells_the_function_and_how_often(why: str, tmp_path: Path) -> None:
    trace = traced(RETRACING.format(n=5, m=9, why=why) + RETRACING.format(n=6, m=10, why=why), tmp_path)
    assert recompiled(trace) == ["train_one:unknown"] * 5
    assert "6 out of the last 10 calls" in trace.recompiles[-1].evidence[0]
    assert "without a word" not in trace.recompiles[-1].advice
    assert any("coldstep run" in text for text in trace.collectors[0].missing)
    assert check(tmp_path).returncode != 0


BROKEN_OFF = """\
W1112 05:36:47.251000 61915 site-packages/torch/_dynamo/convert_frame.py:1016] [2/128] torch._dynamo hit config.recompile_limit (128)

W1112 05:36:47.251000 61915 site-packages/torch/_dynamo/convert_frame.py:1016] [2/128]    
function: 'forward' (/repo/linear.py:140)

W1112 05:36:47.251000 61915 site-packages/torch/_dynamo/convert_frame.py:1016] [2/128]    
last reason: 2/127: tensor 'self._parameters['bias']' size mismatch at index 0. expected 5120, actual 13824. Guard failed
W1112 05:36:47.251000 61915 site-packages/torch/_dynamo/convert_frame.py:1016] [2/128] 
To log all recompilation reasons, use TORCH_LOGS="recompiles".
"""  # noqa: E501
HEAD_LOST = """\
 function: 'forward' (/repo/linear.py:131)
[rank6]:W1101 02:43:39.336000 143 site-packages/torch/_dynamo/convert_frame.py:896] [1/64]    last reason: 1/0: tensor 'L['images']' size mismatch at index 2. expected 1696, actual 1248
"""  # noqa: E501


def test_lines_that_are_broken_off_behind_their_stamp_are_of_the_same_limit(tmp_path: Path) -> None:
    [refused] = traced(BROKEN_OFF, tmp_path).compiles
    assert (refused.function, refused.outcome, refused.location) == (
        "forward",
        "limit",
        coldstep.model.Location("/repo/linear.py", 140, "forward"),
    )


def test_a_limits_function_whose_warning_is_lost_is_no_compile_of_its_own(tmp_path: Path) -> None:
    [refused] = traced(HEAD_LOST, tmp_path).compiles
    assert refused.outcome == "limit"


def test_a_recompile_without_a_line_number_is_one(tmp_path: Path) -> None:
    text = """[2023-04-13 21:42:57,808] torch._dynamo.convert_frame.__recompiles: [DEBUG] ('Recompiling function step in /repo/train.py', "triggered by the following guard failure: L['t'] == 0")\n"""  # noqa: E501
    [again] = traced(text, tmp_path).recompiles
    assert (again.cause, again.argument) == ("python_scalar", "t")


def test_jax_0_3_logs_its_compiles_without_a_mapping(tmp_path: Path) -> None:
    text = """\
WARNING:absl:Finished tracing + transforming f for jit in 2.244359254837036 sec
WARNING:absl:Compiling f (140417529333056) for args (ShapedArray(float32[], weak_type=True),).
WARNING:absl:Finished XLA compilation of f in 1.267568826675415 sec
"""
    [compiled] = traced(text, tmp_path).compiles
    assert (compiled.function, compiled.outcome) == ("f", "compiled")
    assert [leaf.type for leaf in compiled.inputs or ()] == ["f32[] weak"]


ALARM = """\
2024-08-14 10:02:00.000000: E external/xla/xla/service/slow_operation_alarm.cc:65]\x20
********************************
[Compiling module jit_train_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to
********************************
"""


def test_the_alarm_that_xla_repeats_below_the_time_is_no_second_compile(tmp_path: Path) -> None:
    again = ALARM.partition("\n")[2]
    took = (
        "2024-08-14 10:03:12.500000: E external/xla/xla/service/slow_operation_alarm.cc:133] The operation took 3m12.5s"
    )
    trace = traced(f"{ALARM}{took}\n\n{again}step 1 loss 0.3\n", tmp_path)
    [compiled] = trace.compiles
    assert (compiled.outcome, compiled.wall_ns) == ("compiled", 192_500_000_000)
    assert trace.recompiles == []
    assert trace.run.ended == "ok"


def test_a_log_that_goes_on_behind_the_alarm_does_not_break_off(tmp_path: Path) -> None:
    trace = traced(f"{ALARM}step 1 loss 0.3\nstep 2 loss 0.2\n", tmp_path)
    assert trace.run.ended == "ok"
    assert "still compiling" not in render(trace)


def test_an_alarm_of_xlas_alone_does_not_say_that_the_program_was_killed(tmp_path: Path) -> None:
    text = "[Compiling module jit_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=\n"
    trace = traced(text, tmp_path)
    shown = render(trace)
    assert "killed" not in shown
    assert "last heartbeat" not in shown
    assert headline(trace).endswith("; the log breaks off")
    assert "still compiling: step" in shown


def test_xlas_alarm_tells_the_function_and_its_seconds(tmp_path: Path) -> None:
    text = """\
2025-09-12 13:20:40.045: E external/xla/xla/service/slow_operation_alarm.cc:73] Constant folding an instruction is slow
2025-09-12 13:22:40.045: E external/xla/xla/service/slow_operation_alarm.cc:73]
********************************
[Compiling module jit_train_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and attach the results.
********************************
2025-09-12 13:23:07.145: E external/xla/xla/service/slow_operation_alarm.cc:140] The operation took 2m27.1s
"""  # noqa: E501
    trace = traced(text, tmp_path)
    [compiled] = trace.compiles
    assert (compiled.function, compiled.outcome, compiled.wall_ns) == ("train_step", "compiled", 147_100_000_000)
    assert any("JAX_LOG_COMPILES" in text for text in trace.collectors[0].missing)


@pytest.mark.parametrize(
    ("text", "function", "words"),
    [
        (
            "RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '/repo/a.py'"
            ", function name: 'f', line number: 5\n",
            "f",
            "Detected recompile",
        ),
        (
            "E   torch._dynamo.exc.BackendCompilerFailed: backend='mine' raised:\nE   ValueError: no\n",
            "a function",
            "mine",
        ),
        (
            "RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: "
            "'/venv/torch/_dynamo/external_utils.py', function name: 'inner', line number: 66\n",
            "a function",
            "Detected recompile",
        ),
        ("torch._inductor.exc.InductorError: CppCompileError: C++ compile error\n", "a function", "C++ compile error"),
    ],
    ids=["stance", "backend", "wrapper", "inductor"],
)
def test_pytorchs_errors_are_failed_compiles(text: str, function: str, words: str, tmp_path: Path) -> None:
    trace = traced(text, tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [(function, "failed")]
    [failed] = [row for row in trace.findings if row.kind == "failed_compile"]
    assert words in failed.text
    assert any("TORCH_LOGS: recompiles,graph_breaks,dynamic" in text for text in trace.collectors[0].missing)


@each("torch", "failing")
def test_a_backend_that_fails_is_told_with_its_error(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    [failed] = [row for row in trace.findings if row.kind == "failed_compile"]
    assert "backend='bad' raised: RuntimeError: no kernel for this" in failed.text


@each("torch", "stance")
def test_a_recompile_that_the_program_forbids_is_told(path: Path, tmp_path: Path) -> None:
    trace = traced(path.read_text(), tmp_path)
    [failed] = [row for row in trace.findings if row.kind == "failed_compile"]
    assert "Detected recompile" in failed.text


@each("torch", "full")
def test_what_may_be_one_graph_only_is_told_where_it_is_not(path: Path, tmp_path: Path) -> None:
    [compiled] = traced(path.read_text(), tmp_path).compiles
    assert (compiled.function, compiled.outcome, compiled.location) == (
        "score", "failed", coldstep.model.Location("/repo/train.py", 131, "score")
    )  # fmt: skip


def test_vllm_tells_its_seconds(tmp_path: Path) -> None:
    text = """\
INFO 09-12 13:20:40 [backends.py:559] Dynamo bytecode transform time: 5.21 s
INFO 09-12 13:20:55 [monitor.py:34] torch.compile takes 19.90 s in total
"""
    [compiled] = traced(text, tmp_path).compiles
    assert compiled.wall_ns == 19_900_000_000
    assert compiled.segments[0].phases["dynamo.trace"] == 5_210_000_000


def test_a_hint_of_pytorch_2_15_changes_no_cause(tmp_path: Path) -> None:
    reason = "0/0: not ___dict_contains('w', G['box'].__dict__)  # return x + box.w  # repo/net.py:52 in held"
    hint = (
        " (HINT: Dictionary G['box'].__dict__ must not contain key 'w'; Dynamo specialized the compiled code on this "
        "key being absent.)"
    )
    [bare, hinted] = (
        traced(RECOMPILING.format(numbers="[0/1] ", kind="__recompiles", reason=text), tmp_path).recompiles[0]
        for text in (reason, f"{reason}{hint}")
    )
    assert bare.cause == "module_attribute"
    assert (hinted.cause, hinted.argument) == (bare.cause, bare.argument)
