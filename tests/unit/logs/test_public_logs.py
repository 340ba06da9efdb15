"""Logs as people post them: cut, quoted, without their heads. The public lines, with other names, paths and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import coldstep
from coldstep.errors import TraceError
from coldstep.logs import convert
from coldstep.model import Trace
from coldstep_viewers.report.terminal import render


def traced(text: str, folder: Path) -> Trace:
    """The trace that a log makes."""
    (folder / "ci.log").write_text(text)
    convert([str(folder / "ci.log")], str(folder / "ci.pftrace"), lambda read, total: None)
    return coldstep.load(folder / "ci.pftrace")


def failures(trace: Trace) -> list[str]:
    return [row.text for row in trace.findings if row.kind == "failed_compile"]


# --- PyTorch ------------------------------------------------------------------------------------------------------

LIMITS_OF_2_0 = """\
   function: 'collect' (/venv/net/conv.py:281)
   reasons:  tensor 'edges' strides mismatch at index 0. expected 5263, actual 5147
to diagnose recompilation issues, see https://pytorch.org/docs/master/dynamo/troubleshooting.html.
[2023-02-22 19:40:57,184] torch._dynamo.convert_frame: [WARNING] torch._dynamo hit config.cache_size_limit (64)
   function: 'spread' (/venv/net/utils.py:52)
   reasons:  ___check_obj_id(past, 94636661886208)
to diagnose recompilation issues, see https://pytorch.org/docs/master/dynamo/troubleshooting.html.
"""


def test_a_reason_of_pytorch_2_0_need_not_be_quoted_nor_the_first_line_dated(tmp_path: Path) -> None:
    trace = traced(LIMITS_OF_2_0, tmp_path)
    told = [row.evidence[0] for row in trace.findings if row.kind == "cache_limit"]
    assert told[0].startswith("layout, the last time: edges was stride 5263")
    assert told[1] == "identity, the last time: another object in past"
    assert trace.run.started.startswith("2023-02-22")


def test_a_path_that_is_cut_names_no_place(tmp_path: Path) -> None:
    stamp = "V0506 17:15:05.960000 367 torch/_dynamo/guards.py:3384] [0/{}] [__recompiles] "
    text = (
        f"{stamp.format(1)}Recompiling function forward in /repo/checks/sizes.py:13\n"
        f"{stamp.format(1)}    triggered by the following guard failure(s):\n"
        f"{stamp.format(1)}    - 0/0: tensor 'x' size mismatch at index 0. expected 7, actual 8\n"
        f"{stamp.format(2)}Recompiling function forward in /repo/che"
    )
    trace = traced(text, tmp_path)
    place = coldstep.model.Location("/repo/checks/sizes.py", 13, "forward")
    assert [row.location for row in trace.compiles] == [place, place]
    assert "TORCH_LOGS=recompiles:" not in (trace.recompiles[-1].advice or "")  # it was on: the lines are lost
    assert "are lost" in trace.recompiles[-1].evidence[0]


def test_a_recompile_that_is_cut_in_its_first_line_is_one(tmp_path: Path) -> None:
    stamp = "[2023-11-21 19:02:17,738] torch._dynamo.guards.__recompiles: [DEBUG] "
    text = (
        f"{stamp}Recompiling function gather in <ipython-input-6-47>:6\n"
        f"{stamp}    triggered by the following guard failure(s):\n"
        f"{stamp}    - L['end'] == 10\n"
        f"{stamp}Recompiling function gather in\n"
    )
    trace = traced(text, tmp_path)
    assert len(trace.recompiles) == 2
    assert "are lost" in trace.recompiles[1].evidence[0]


def test_a_file_without_a_line_has_no_line_0(tmp_path: Path) -> None:
    text = (
        "[2023-05-15 11:33:09,972] torch._dynamo.convert_frame.__recompiles: [DEBUG] "
        "('Recompiling function predict in test.py', \"triggered by the following guard failure: L['text'] == 'a'\")\n"
    )
    trace = traced(text, tmp_path)
    assert trace.compiles[0].location is None
    assert "predict" in render(trace)
    assert "test.py:0" not in render(trace)
    assert any("test.py" in line for line in trace.recompiles[0].evidence)


def test_blanks_that_a_page_has_taken_do_not_matter(tmp_path: Path) -> None:
    stamp = "V0703 10:34:13.273000 140 torch/_dynamo/guards.py:2590] [0/1] [__recompiles] "
    words = (
        "Recompiling function f in /repo/b.py:3",
        "triggered by the following guard failure(s):",
        "- 0/0: tensor 'L['x']' size mismatch at index 0. expected 4, actual 5",
    )
    [row] = traced("".join(f"{stamp}{line}\n" for line in words), tmp_path).recompiles
    assert (row.cause, row.argument) == ("shape", "x")


def test_a_recompile_that_is_an_error_is_a_failed_compile(tmp_path: Path) -> None:
    text = "torch._dynamo.exc.RecompileError: Recompiling function forward in /venv/site-packages/net.py:389\n"
    trace = traced(text, tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [("forward", "failed")]
    assert "RecompileError" in failures(trace)[0]


@pytest.mark.parametrize("file", ["torch/_dynamo/variables/tensor.py", r"Lib\torch\_dynamo\variables\tensor.py"])
def test_the_warning_of_a_value_that_is_read_is_a_graph_break(file: str, tmp_path: Path) -> None:
    stamp = f"[rank1]:W0906 20:38:55.305000 569 {file}:1047] [7/0] "
    words = (
        "    torch._dynamo.config.capture_scalar_outputs = True",
        "or:",
        "    env TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1",
        "to include these operations in the captured graph.",
        "",
        "Graph break: from user code at:",
        '  File "/repo/metrics.py", line 789, in accuracy',
        "    ).sum().item() / (mask.sum().item() + 1e-6)",
    )
    trace = traced("".join(f"{stamp}{line}\n" for line in words), tmp_path)
    [row] = trace.graph_breaks
    assert (row.kind, row.location) == (
        "data_dependent",
        coldstep.model.Location("/repo/metrics.py", 789, "accuracy"),
    )
    assert "none happened" not in "".join(trace.collectors[0].missing).partition("graph breaks")[2][:60]


def test_a_second_handlers_error_of_a_graph_break_is_no_failure(tmp_path: Path) -> None:
    stamp = "V1125 01:05:52.254000 140 torch/_dynamo/symbolic_convert.py:534] [0/0] [__graph_breaks] "
    words = (
        "Graph break: from user code at:",
        '  File "/repo/train.py", line 62, in pick',
        "    n = int(x.sum())",
        "Traceback (most recent call last):",
        '  File "/venv/torch/_dynamo/exc.py", line 317, in unimplemented',
        "    raise Unsupported(msg)",
        "torch._dynamo.exc.Unsupported: Tensor.item",
    )
    trace = traced("".join(f"{stamp}{line}\n" for line in words) + "\n".join((*words, "")), tmp_path)
    assert failures(trace) == []
    assert [row.outcome for row in trace.compiles] == ["compiled"]


def test_a_break_that_is_cut_before_its_reason_says_so(tmp_path: Path) -> None:
    stamp = "    V1112 13:10:18.379000 529 torch/_dynamo/convert_frame.py:1282] [5/0] [__graph_breaks] "
    words = (
        "Graph break: skip: from user code at:",
        '  File "/repo/hooks.py", line 85, in check',
        "    if not spec.is_in(item):",
        "Traceback (most recent call last):",
    )
    [row] = traced("".join(f"{stamp}{line}\n" for line in words), tmp_path).graph_breaks
    assert "not in the log" in row.reason


def test_where_a_log_has_no_costs_its_advice_is_what_to_change(tmp_path: Path) -> None:
    stamp = "W0921 18:32:27.863000 6084 torch/_dynamo/convert_frame.py:964] [9/64] "
    text = (
        f"{stamp}torch._dynamo hit config.recompile_limit (64)\n"
        f"{stamp}   function: '__call__' (net/patch.py:129)\n"
        f"{stamp}   last reason: 9/63: self.key == 'blocks.6.weight'\n"
    )
    report = render(traced(text, tmp_path))
    assert "Nothing to change" not in report
    assert "see the advice" in report


def test_a_class_that_is_made_anew_is_no_tensor(tmp_path: Path) -> None:
    stamp = "W1110 17:56:13.321000 774 torch/_dynamo/convert_frame.py:1550] [0/8] "
    words = (
        "torch._dynamo hit config.recompile_limit (8)",
        "   function: 'forward' (/repo/test.py:30)",
        "   last reason: 0/7: ___check_type_id(self, 224599728)        # a = self.net1(x)  # test.py:31 in forward",
    )
    error = "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with fullgraph=True. Excessive"
    trace = traced("".join(f"{stamp}{line}\n" for line in words) + f"\n.....\n{error}\n", tmp_path)
    [limit] = [row for row in trace.findings if row.kind == "cache_limit"]
    assert "tensor" not in (limit.advice or "")
    assert any("FailOnRecompileLimitHit" in line for line in limit.evidence)
    assert len(trace.compiles) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "W0318 17:26:58.812000 2814 torch/_dynamo/convert_frame.py:1009]     raise self._exception\n"
            "W0318 17:26:58.812000 2814 torch/_dynamo/convert_frame.py:1009] torch._dynamo.exc.BackendCompilerFailed: "
            "backend='inductor' raised:\n"
            "W0318 17:26:58.812000 2814 torch/_dynamo/convert_frame.py:1009] AssertionError:\n",
            "AssertionError",
        ),
        ("backend='inductor' raised:\nRuntimeError: Cannot find a working triton installation.\n", "triton"),
        (
            "Unsupported: Data-dependent branching\n  Explanation: Detected data-dependent branching\n\n"
            'from user code:\n   File "/repo/net.py", line 7, in forward\n    if x.sum() > 0:\n\n'
            'Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace. For more, set TORCH_LOGS="+dynamo"\n',
            "Detected data-dependent branching",
        ),
        (
            "torch._dynamo.exc.TorchRuntimeError: \n\nfrom user code:\n"
            '   File "/repo/t5.py", line 559, in <resume in forward>\n    scores += bias\n',
            "forward failed to compile: TorchRuntimeError",
        ),
        (
            "W0810 21:12:14.346000 728 Lib\\site-packages\\torch\\_dynamo\\convert_frame.py:1280]   File "
            '"F:\\env\\Lib\\site-packages\\torch\\_dynamo\\convert_frame.py", line 1059, in _compile\n'
            "W0810 21:12:14.346000 728 Lib\\site-packages\\torch\\_dynamo\\convert_frame.py:1280]     code = f(\n",
            "not in the log",
        ),
        (
            "(EngineCore pid=77) ERROR 06-20 16:02:35 [core.py:718] torch._dynamo.exc.Unsupported: no such operation\n"
            "(EngineCore pid=77) ERROR 06-20 16:02:35 [core.py:718]   Explanation: it returned a string\n",
            "it returned a string",
        ),
    ],
    ids=["suppressed", "bare", "notebook", "empty", "middle", "vllm"],
)
def test_an_error_without_its_head_or_class_is_a_failed_compile(text: str, words: str, tmp_path: Path) -> None:
    trace = traced(text, tmp_path)
    assert [row.outcome for row in trace.compiles] == ["failed"]
    assert words in failures(trace)[0]


def test_an_error_is_told_beside_the_recompiles_of_its_log(tmp_path: Path) -> None:
    stamp = "V0919 16:15:57.093000 255 torch/_dynamo/guards.py:2997] [0/1] [__recompiles] "
    recompiles = (
        f"{stamp}Recompiling function forward in /repo/net.py:440\n"
        f"{stamp}    triggered by the following guard failure(s):\n"
        f"{stamp}    - 0/0: tensor 'x' size mismatch at index 0. expected 7, actual 8\n"
    )
    error = "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: no triton\n"
    trace = traced(
        f"{recompiles}step 1\n{error}INFO 06-20 16:02:35 [monitor.py:34] torch.compile takes 9 s in total\n", tmp_path
    )
    assert len(trace.recompiles) == 1
    assert ["no triton" in text for text in failures(trace)] == [True]
    assert "vLLM's model" in {row.function for row in trace.compiles}


def test_a_line_of_vllms_may_be_broken(tmp_path: Path) -> None:
    text = (
        "INFO 04-18 08:26:11 [backends.py:431] Dynamo bytecode transform time:\n5.03 s\n"
        "INFO 04-18 08:26:15 [backends.py:120] Directly load the compiled\n"
        "graph(s) for shape None from the cache, took 4.190 s\n"
    )
    [row] = traced(text, tmp_path).compiles
    assert (row.wall_ns, row.outcome) == (9_220_000_000, "cache_hit")


TUNED = """\
AUTOTUNE addmm(512x197, 512x512, 512x197)
  triton_mm_61 1.2500 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=32
  addmm 1.5000 ms 83.3%
SingleProcess AUTOTUNE benchmarking takes 0.9773 seconds and 0.6039 seconds precompiling for 17 choices
"""


def test_inductor_tells_what_it_tunes(tmp_path: Path) -> None:
    trace = traced(TUNED, tmp_path)
    [row] = trace.autotuning
    assert (row.operation, row.winner, row.choices) == ("addmm(512x197, 512x512, 512x197)", "triton_mm_61", 17)
    assert (row.compile_ns, row.timing_ns, row.gain_ns) == (603_900_000, 977_300_000, 250_000)
    assert len(trace.compiles) == 1
    [headless] = traced("".join(TUNED.splitlines(keepends=True)[2:]), tmp_path).autotuning
    assert (headless.gain_ns, "not known" in headless.winner) == (None, True)


STATS = '{"num_choices": 20, "num_triton_choices": 19, "best_kernel": "triton_mm_61", "best_time": 1.25}\n'


def test_what_was_tuned_without_its_seconds_or_behind_a_servers_stamps(tmp_path: Path) -> None:
    untimed = "".join(TUNED.splitlines(keepends=True)[:3])
    [row] = traced(STATS + untimed, tmp_path).autotuning
    assert (row.winner, row.choices, row.gain_ns, row.cached) == ("triton_mm_61", 20, None, False)
    [row] = traced(untimed, tmp_path).autotuning
    assert " ns " not in render(traced(untimed, tmp_path))
    assert row.choices == 0  # as many as are shown, or more
    stamp = "2024-02-13T02:09:34,864 [WARN ] W-9000-dense_1.0-stderr MODEL_LOG - "
    lines = TUNED.replace(" benchmarking", "").partition(" and 0.6")[0].splitlines()
    text = "".join(f"{stamp}{line}\n" for line in [lines[-1], *lines])
    headless, row = traced(text, tmp_path).autotuning
    assert (row.operation, row.winner, row.choices) == ("addmm(512x197, 512x512, 512x197)", "triton_mm_61", 2)
    assert "0 choices" not in render(traced(text, tmp_path))
    assert headless.operation == "an operation"
    later = traced(text + text.replace("02:09:34", "02:11:34"), tmp_path)
    assert [row.wall_ns < 3_000_000_000 for row in later.compiles] == [True]


def test_what_dynamo_traces_is_a_compile_once_where_lines_have_no_numbers(tmp_path: Path) -> None:
    stamp = "[2023-03-06 21:46:13,516] torch._dynamo.symbolic_convert: [INFO] "
    words = ("generate", "check", "<graph break in check>", "check", "step /repo/net.py:355")
    trace = traced("".join(f"{stamp}Step 1: torchdynamo start tracing {each}\n" for each in words), tmp_path)
    assert [row.function for row in trace.compiles] == ["generate", "check", "step"]
    assert trace.recompiles == []
    numbered = (
        "[2024-02-05 15:21:42,426] [0/0] torch._dynamo.symbolic_convert: [INFO] Step 1: torchdynamo start tracing "
    )
    [row] = traced(f"{numbered}fn /repo/debug.py:3\n", tmp_path).compiles
    assert row.location == coldstep.model.Location("/repo/debug.py", 3, "fn")


VLLM = """\
(EngineCore pid=10) INFO 10-08 06:06:34 [backends.py:550] Dynamo bytecode transform time: 6.98 s
(EngineCore pid=10) INFO 10-08 06:06:51 [backends.py:215] Compiling a graph for dynamic shape takes 16.87 s
(EngineCore pid=10) INFO 10-08 06:06:52 [monitor.py:34] torch.compile takes 23.86 s in total
"""
LOADED = """\
2026-06-10 11:30:42 | backends | 139623526012736 | INFO : Dynamo bytecode transform time: 14.33 s
2026-06-10 11:30:44 | backends | 139623526012736 | INFO : Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.803 s
"""  # noqa: E501


def test_models_of_vllms_are_no_recompiles_of_one_another(tmp_path: Path) -> None:
    again = "(EngineCore pid=10) INFO 10-08 06:09:34 [backends.py:1148] Dynamo bytecode transform tim"
    loaded = "(Worker_TP1 pid=12) INFO 10-08 06:06:37 [decorators.py:311] Directly load AOT compilation from path ~\n"
    trace = traced(loaded + VLLM + again, tmp_path)
    assert [row.outcome for row in trace.compiles] == ["cache_hit", "compiled", "compiled"]
    assert trace.recompiles == []


@pytest.mark.parametrize(
    ("text", "outcome", "seconds"),
    [
        (VLLM, "compiled", {"dynamo.trace": 6.98, "inductor.compile": 16.87}),
        (LOADED, "cache_hit", {"dynamo.trace": 14.33, "inductor.cache": 1.803}),
        ("> INFO 12-05 22:39:04 monitor.py:13] graph compilation takes 14.73 s in total\n", "compiled", {}),
    ],
    ids=["compiled", "loaded", "quoted"],
)
def test_vllm_tells_what_each_part_took(text: str, outcome: str, seconds: dict[str, float], tmp_path: Path) -> None:
    [row] = traced(text, tmp_path).compiles
    assert row.outcome == outcome
    assert {name: ns / 1e9 for name, ns in row.segments[0].phases.items()} == pytest.approx(seconds)


# --- JAX and XLA --------------------------------------------------------------------------------------------------

ALARM_OF_2022 = """\
2022-02-15 16:22:05.982180: E external/org_tensorflow/tensorflow/compiler/xla/service/slow_operation_alarm.cc:55]
********************************
Very slow compile?  If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and attach the results.
Compiling module jit_apply_fn.99150
********************************
"""
ALARM_WITH_A_NUMBER = (
    "[trainer/0] [Compiling module jit_sgd_step.8] Very slow compile?  If you want to file a bug, run\n"
)


ALARM_AT_AN_OPERATION = ALARM_OF_2022.replace("jit_apply_fn.99150", "primitive_computation_convert_element_type.3")


@pytest.mark.parametrize(
    ("text", "function"),
    [
        (ALARM_OF_2022, "apply_fn"),
        (ALARM_WITH_A_NUMBER, "sgd_step"),
        (ALARM_AT_AN_OPERATION, "convert_element_type"),
    ],
    ids=["below", "number", "operation"],
)
def test_the_alarm_of_an_older_xla_names_the_function(text: str, function: str, tmp_path: Path) -> None:
    trace = traced(text, tmp_path)
    assert [row.function for row in trace.compiles] == [function]
    assert function in render(trace)


def test_the_alarms_time_stands_above_it(tmp_path: Path) -> None:
    trace = traced(ALARM_OF_2022, tmp_path)
    assert trace.run.started.startswith("2022-02-15")
    assert "have no times" not in render(trace)


ALARMS = """\
[Compiling module jit_apply_fn.8] Very slow compile?  If you want to file a bug, run with envvar XLA_FLAGS=
model_4:  43%|███    | 3/7 [elapsed: 1:12:02 remaining: 1:35:05]2022-08-18 16:47:57.276: E slow_operation_alarm.cc:65]
[Compiling module jit_apply_fn.9] Very slow compile?  If you want to file a bug, run with envvar XLA_FLAGS=
2022-08-18 16:53:06.778986: E external/xla/service/slow_operation_alarm.cc:133] The operation took 7m9.5s

[Compiling module jit_apply_fn.9] Very slow compile?  If you want to file a bug, run with envvar XLA_FLAGS=
model_5:  57%|████   | 4/7 [elapsed: 1:35:56 remaining: 1:11]2022-08-18 17:17:07.7: E x.cc:133] The operation took 2m1s

[Compiling module jit_apply_fn.10]"""


def test_alarms_of_one_name_are_no_recompile_and_a_time_may_come_before_its_alarm(tmp_path: Path) -> None:
    trace = traced(ALARMS, tmp_path)
    assert {row.outcome for row in trace.compiles} == {"compiled"}
    assert sorted(row.wall_ns / 1e9 for row in trace.compiles) == [0, 121, 429.5]
    assert trace.recompiles == []


def test_the_number_in_a_stamp_of_xlas_is_a_threads(tmp_path: Path) -> None:
    text = (
        "E1109 19:24:47.543532 2695810 slow_operation_alarm.cc:73] \n"
        "[Compiling module jit_unroll for GPU] Very slow compile? If you want to file a bug, run with envvar\n"
        "E1109 19:28:30.719801 2695453 slow_operation_alarm.cc:140] The operation took 5m43.0s\n"
    )
    trace = traced(text, tmp_path)
    assert [(row.function, row.wall_ns) for row in trace.compiles] == [("unroll", 343_000_000_000)]


def test_a_compile_in_whose_midst_the_log_begins_is_one(tmp_path: Path) -> None:
    text = (
        "Finished XLA compilation of jit(sqrt) in 0.05 sec\nFinished tracing + transforming div for pjit in 0.1 sec\n"
    )
    [row] = traced(text, tmp_path).compiles
    assert (row.function, row.outcome, row.wall_ns) == ("sqrt", "compiled", 50_000_000)


def test_jaxs_lines_of_its_cache_stand_for_compiles_where_there_are_no_others(tmp_path: Path) -> None:
    key = "692d535c186e55067e5cd64384afa04e"
    text = (
        f"DEBUG:2025-05-13 10:09:17,680:jax._src.compiler:109: PERSISTENT COMPILATION CACHE MISS for 'jit_step' with "
        f"key 'jit_step-{key}'\n"
        "DEBUG:2025-05-13 10:09:22,020:jax._src.compiler:71: 'jit_step' took at least 1.00 seconds to compile (4.34s)\n"
        f"DEBUG:2025-05-13 10:09:22,021:jax._src.compilation_cache:247: Not writing persistent cache entry with key "
        f"'jit_step-{key}' since cache is disabled/not initialized\n"
        f"DEBUG:2025-05-13 10:09:24,021:jax._src.compiler:109: Persistent compilation cache hit for 'jit_other' with "
        f"key 'jit_other-{key}'\n"
    )
    trace = traced(text, tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [("step", "compiled"), ("other", "cache_hit")]
    assert trace.compiles[0].wall_ns == 4_340_000_000
    assert trace.compiles[0].caches[0].why == "disabled"
    assert trace.recompiles == []


def test_a_compile_of_an_older_jaxs_that_is_cut_in_its_line_is_one(tmp_path: Path) -> None:
    text = "WARNING:absl:Compiling run_epoch for args (ArgSpec(aval=ShapedArray(uint32[2]), lazy_expr=LazyExpr(inp"
    [row] = traced(text, tmp_path).compiles
    assert (row.function, row.outcome) == ("run_epoch", "in_progress")


def test_a_compile_of_jaxs_that_is_cut_in_its_line_is_one(tmp_path: Path) -> None:
    text = (
        "WARNING:2025-08-19 18:15:49,419:jax._src.dispatch:98: Finished tracing + transforming solve for jit in 1 sec\n"
        "WARNING:2025-08-19 18:15:49,420:jax._src.interpreters.pxla:1861: Compiling jit(solve) with global s"
    )
    [row] = traced(text, tmp_path).compiles
    assert (row.function, row.outcome) == ("solve", "in_progress")


# --- torch_xla and TensorFlow -------------------------------------------------------------------------------------

METRICS = """\
[MetricsData; step=4]
Metric: CompileTime
  TotalSamples: 4
  Accumulator: 08s849ms784.283us
  Rate: 0.211497 / second
  Percentiles: 1%=016ms372.081us; 50%=04s588ms508.900us; 99%=04s670ms368.276us
Counter: CachedCompile
  Value: 2
Counter: aten::_local_scalar_dense
  Value: 36
"""


def test_torch_xlas_metrics_count_its_compiles(tmp_path: Path) -> None:
    trace = traced(METRICS, tmp_path)
    assert [row.stack for row in trace.compiles] == ["torch_xla"] * 4
    assert trace.recompiles == []
    [missing] = trace.collectors[0].missing
    assert "4, in 8.8 s (99 % of them took 4.7 s or less), and 36 values" in missing
    later = traced(METRICS + METRICS.replace("Samples: 4", "Samples: 9").partition("  Accum")[0], tmp_path)
    assert len(later.compiles) == 9
    assert "8.8 s" not in later.collectors[0].missing[0]


def test_counters_alone_count_them_too(tmp_path: Path) -> None:
    text = "Counter: CachedSyncTensors\n  Value: 1\nCounter: CreateCompileHandles\n  Value: 7\n"
    assert len(traced(text, tmp_path).compiles) == 7
    assert len(traced(METRICS + text, tmp_path).compiles) == 4


RETRACED = (
    "WARNING:tensorflow:5 out of the last 9 calls to <function train_step at 0x7f0ac15a7f80> triggered tf.function "
    "retracing. Tracing is expensive\n"
)


def test_the_same_warning_once_more_is_no_further_trace(tmp_path: Path) -> None:
    trace = traced(2 * RETRACED, tmp_path)
    assert len(trace.compiles) == 5
    assert {row.advice for row in trace.recompiles} == {trace.recompiles[0].advice}
    assert "reduce_retracing=True" in (trace.recompiles[0].advice or "")


@pytest.mark.parametrize(
    "text",
    [
        RETRACED.replace("at 0x", "at \n0x"),
        RETRACED.replace("5 out of", "5 of"),
    ],
    ids=["wrapped", "by-hand"],
)
def test_a_warning_of_tensorflows_is_read_as_people_write_it(text: str, tmp_path: Path) -> None:
    assert [row.function for row in traced(text, tmp_path).compiles] == ["train_step"] * 5


def test_what_tensorflow_says_once_of_xla_is_one_compile(tmp_path: Path) -> None:
    text = (
        "2024-01-02 10:00:00.123456: I external/local_xla/xla/service/service.cc:168] XLA service 0x7f initialized\n"
        "I0000 00:00:1704189600.123456 1000 device_compiler.h:186] Compiled cluster using XLA!  This line is logged at "
        "most once for the lifetime of the process.\n"
    )
    assert [row.stack for row in traced(text, tmp_path).compiles] == ["tensorflow"]


# --- of the report, and of logs that tell nothing -----------------------------------------------------------------


def test_a_log_without_a_year_says_that_the_year_is_a_guess(tmp_path: Path) -> None:
    stamp = "W1110 17:56:13.321000 774 torch/_dynamo/convert_frame.py:1550] [0/8] "
    text = f"{stamp}torch._dynamo hit config.recompile_limit (8)\n{stamp}   function: 'f' (/repo/a.py:3)\n"
    assert any("name no year" in note for note in traced(text, tmp_path).run.notes)
    assert not any("name no year" in note for note in traced(LIMITS_OF_2_0, tmp_path).run.notes)


def test_the_report_names_what_was_compiled_once(tmp_path: Path) -> None:
    text = (
        "Compilation Analysis: ====\nCompilation Analysis: Compilation Cause\nCompilation Analysis:   user mark_step\n"
        "Compilation Analysis: Python Frame Triggered Execution: \n"
        "Compilation Analysis:   mark_step (/w/torch_xla/core/xla_model.py:826)\n"
        "Compilation Analysis:   train (/repo/train.py:261)\nCompilation Analysis: ----\n"
    )
    assert "/repo/train.py:261" in render(traced(text, tmp_path), width=200)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "ValueError: Unsupported: float8",
        "INFO: Compiling the model for args given on the command line.",
        "E0000 slow step? The operation took longer than it should",
        "epoch 1: 5 out of 9 calls to <unknown> failed",
        "model = torch.compile(model, backend='inductor')",
        "Counter: 12 steps",
        "Directly loading checkpoint shard 1 of 2",
        "Compiling module kernels.cu for sm_90",
    ],
)
def test_what_only_looks_like_such_a_line_is_none(line: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no"):
        traced(f"step 1 loss 0.5\n{line}\nstep 2 loss 0.4\n" * 3, tmp_path)
