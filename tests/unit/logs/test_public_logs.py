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


def test_words_of_a_limit_may_be_bold(tmp_path: Path) -> None:
    text = """\
> torch._dynamo.convert_frame: [WARNING] torch._dynamo hit config.cache_size_limit (8)
 torch._dynamo.convert_frame: [WARNING]    function: 'step' (/venv/torch/optim/adam.py:140)
> torch._dynamo.convert_frame: [WARNING]    **last reason: L['self'].param_groups[0]['lr'] == 0.00125     # _init  # optim/adam.py:163 in step**
> torch._dynamo.convert_frame: [WARNING] To log all recompilation reasons, use TORCH_LOGS="recompiles".
"""  # noqa: E501
    [limit] = (row for row in traced(text, tmp_path).findings if row.kind == "cache_limit")
    assert limit.evidence[0].endswith("['lr'] was 0.00125")


def test_reasons_of_three_functions_are_three_recompiles(tmp_path: Path) -> None:
    lines = (
        f"V0316 21:07:5{n}.000000 139 torch/_dynamo/guards.py:1423] [__recompiles]     - {n}/0: tensor 'x{n}' size "
        f"mismatch at index 0. expected 8, actual 5"
        for n in range(3)
    )
    rows = traced("\n".join(lines), tmp_path).recompiles
    assert [(row.argument, len(row.evidence)) for row in rows] == [("x0", 1), ("x1", 1), ("x2", 1)]


def test_reasons_without_the_recompile_that_they_are_of_are_one(tmp_path: Path) -> None:
    stamp = "V0316 21:07:52.605000 139637715699520 torch/_dynamo/guards.py:1423] "
    text = (
        f"{stamp}[__recompiles_verbose]     guard 0 failures:\n"
        f"{stamp}[__recompiles_verbose]     - L['self'].param_groups[0]['betas'][0] == 0.925 \n"
        f"{stamp}[__recompiles_verbose] \n"
    )
    [row] = traced(text, tmp_path).recompiles
    assert "betas" in row.argument


def test_a_break_in_the_standard_library_of_another_machine_is_that_modules(tmp_path: Path) -> None:
    text = """\
[__graph_breaks] Graph break in user code at /opt/conda/envs/flow/lib/python3.10/logging/__init__.py:2127
[__graph_breaks] Graph Break Reason: Unsupported method call
[__graph_breaks]   Explanation: Dynamo does not know how to trace method `__len__` of class `<unknown type>`
[__graph_breaks]   Developer debug context: call_method GetAttrVariable(root) __len__ [] {}
[__graph_breaks] User code traceback:
[__graph_breaks]   File "/repo/bench.py", line 14, in _accumulate
[__graph_breaks]     logging.info("tick")
[__graph_breaks]   File "/opt/conda/envs/flow/lib/python3.10/logging/__init__.py", line 2127, in info
[__graph_breaks]     if len(root.handlers) == 0:
[__graph_breaks]
"""
    [row] = traced(text, tmp_path).graph_breaks
    assert row.advice is not None
    assert row.advice.startswith("logging does there")


def test_an_object_that_differs_has_no_value_in_the_limit_that_it_led_to(tmp_path: Path) -> None:
    stamp = "W0522 09:41:17.331000 4127 torch/_dynamo/convert_frame.py:987] [3/64] "
    text = (
        f"{stamp}torch._dynamo hit config.recompile_limit (64)\n{stamp}   function: 'forward' (/repo/blocks.py:71)\n"
        f"{stamp}   last reason: 3/63: ___check_obj_id(self._modules['q'].weight_function[0], 139846220113904)\n"
    )
    [limit] = (row for row in traced(text, tmp_path).findings if row.kind == "cache_limit")
    assert "64 variants (another object in self.q.weight_function[0]): no more" in limit.text


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
    short = (
        text.partition(" in /venv")[0] + "\n    - 0/0: tensor 'x' size mismatch at index 1. expected 24, actual 48\n"
    )
    [error] = failures(traced(short, tmp_path))
    assert error.startswith("forward failed to compile: RecompileError: Recompiling function forward - 0/0: tensor 'x'")
    assert error.endswith("expected 24, actual 48")


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


def test_the_warning_of_a_value_that_is_read_need_have_no_stamp_and_no_place(tmp_path: Path) -> None:
    text = (
        "Graph break from `Tensor.item()`, consider setting:\n    torch._dynamo.config.capture_scalar_outputs = True\n"
    )
    [row] = traced(f"every step hits one:\n```\n{text}```\nreported originally for `pi`.\n", tmp_path).graph_breaks
    assert (row.kind, row.location) == ("data_dependent", None)
    place = 'Graph break: from user code at:\n  File "/repo/metrics.py", line 789, in accuracy\n    n.item()\n'
    [row] = traced(f"{text}or:\nto include these operations in the captured graph.\n\n{place}", tmp_path).graph_breaks
    assert row.location == coldstep.model.Location("/repo/metrics.py", 789, "accuracy")
    assert any("of which PyTorch does not warn" in words for words in traced(text, tmp_path).collectors[0].missing)


_OF_BUILTINS = " This function is either a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension"
_WARNS_OF_BUILTIN = "/venv/torch/_dynamo/variables/functions.py:725: UserWarning: "
_BUILTIN_OF_2_5 = f"Graph break due to unsupported builtin fast_cuda.PyCapsule.fwd.{_OF_BUILTINS}"
_BUILTIN_OF_2_8 = f"Dynamo does not know how to trace the builtin `fast_cuda.PyCapsule.fwd.`{_OF_BUILTINS}"


@pytest.mark.parametrize("words", [_BUILTIN_OF_2_5, _BUILTIN_OF_2_8])
def test_the_warning_of_a_function_in_c_is_a_graph_break(words: str, tmp_path: Path) -> None:
    text = f"step 1\n{_WARNS_OF_BUILTIN}{words}\n  torch._dynamo.utils.warn_once(msg)\nstep 2\n"
    trace = traced(text * 2, tmp_path)
    [row] = trace.graph_breaks
    assert (row.kind, row.location) == ("unsupported_call", None)
    assert "fast_cuda.PyCapsule.fwd" in row.reason
    assert "TORCH_LOGS: recompiles,graph_breaks,dynamic" in "".join(trace.collectors[0].missing)
    assert trace.compiles == []  # which it is of is not known


@pytest.mark.parametrize(
    "error",
    [
        f"torch._dynamo.exc.Unsupported: {_BUILTIN_OF_2_5}\n",
        f"torch._dynamo.exc.Unsupported: Attempted to call a skipped function\n  Explanation: {_BUILTIN_OF_2_8}\n",
    ],
)
def test_where_that_ends_the_compile_it_is_no_graph_break(error: str, tmp_path: Path) -> None:
    words = _BUILTIN_OF_2_5 if _BUILTIN_OF_2_5 in error else _BUILTIN_OF_2_8
    trace = traced(f"{_WARNS_OF_BUILTIN}{words}\n{error}", tmp_path)
    assert trace.graph_breaks == []
    assert len(failures(trace)) == 1


def test_that_warning_is_of_the_compile_that_the_log_is_amid(tmp_path: Path) -> None:
    stamp = "I0729 14:35:56.100000 99840 torch/fx/experimental/symbolic_shapes.py:3334] [0/0] "
    text = f"{stamp}create_env\n{_WARNS_OF_BUILTIN}{_BUILTIN_OF_2_8}\n{stamp}produce_guards\n"
    trace = traced(text, tmp_path)
    assert [row.compile for row in trace.graph_breaks] == [row.id for row in trace.compiles]


@pytest.mark.parametrize(
    "line",
    [
        f"/repo/roads.py:3: UserWarning: {_BUILTIN_OF_2_5}",
        f"# {_BUILTIN_OF_2_8}",
        f"+{_WARNS_OF_BUILTIN}{_BUILTIN_OF_2_8}",
        f"-{_WARNS_OF_BUILTIN}{_BUILTIN_OF_2_5}",
        "/venv/torch/_dynamo/eval_frame.py:412: UserWarning: changing options to `torch.compile()` may require a reset",
        f"{_WARNS_OF_BUILTIN}Graph break due to unsupp",
        '    warnings.warn("Dynamo does not know how to trace the builtin")',
        f"{_WARNS_OF_BUILTIN}{_BUILTIN_OF_2_5}".replace("UserWarning", "FutureWarning"),
    ],
)
def test_another_warning_is_no_graph_break(line: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no"):
        traced(f"step 1\n{line}\nstep 2\n", tmp_path)


def test_such_a_warning_counts_no_compile_twice_and_hides_no_report(tmp_path: Path) -> None:
    warned = f"{_WARNS_OF_BUILTIN}{_BUILTIN_OF_2_5}\n"
    other = warned.replace("fast_cuda", "slow_cuda")
    stamp = "V0729 14:35:56.100000 99840 torch/_dynamo/guards.py:3334] [0/1] [__recompiles] "
    recompile = f"{stamp}Recompiling function step in /repo/a.py:2\n{stamp}    - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 5\n"  # noqa: E501
    trace = traced(f"{warned}{recompile}{other}", tmp_path)
    assert [row.function for row in trace.compiles] == ["step"]
    assert [(row.compile, row.count) for row in trace.graph_breaks] == [(None, 1)] * 2
    seconds = "TorchDynamo compilation metrics:\nFunction, Runtimes (s)\n_compile.compile_inner, 23.8579, 4.2\n"
    trace = traced(f"{warned}{seconds}", tmp_path)
    assert [round(row.wall_ns / 1e9) for row in trace.compiles] == [24, 4]
    assert [row.compile for row in trace.graph_breaks] == [None]
    tuned = "AUTOTUNE mm(128x128, 128x128)\n  mm 0.0123 ms 100.0%\nSingleProcess AUTOTUNE benchmarking takes 1.2345 seconds\n"  # noqa: E501
    assert len(traced(f"{warned}{tuned}", tmp_path).compiles) == len(traced(tuned, tmp_path).compiles)


def test_a_report_of_explain_has_that_break_in_full(tmp_path: Path) -> None:
    report = "Graph Break Count: 1\nBreak Reasons:\n  Break Reason 1:\n    Reason: {}\n    User Stack:\n"
    report += "      <FrameSummary file /repo/a.py, line 2 in g>\n"
    text = f"{_WARNS_OF_BUILTIN}{_BUILTIN_OF_2_5}\n{report.format(_BUILTIN_OF_2_5)}"
    [row] = traced(text, tmp_path).graph_breaks
    assert row.location == coldstep.model.Location("/repo/a.py", 2, "g")
    assert len(traced(text[: text.rindex("fast_cuda") + 4], tmp_path).graph_breaks) == 1  # cut amid the reason


def test_that_warning_is_of_the_function_that_the_log_traces(tmp_path: Path) -> None:
    stamp = "I0729 14:35:56.100000 99840 torch/_dynamo/symbolic_convert.py:3334] [0/0] Step 1: torchdynamo "
    text = (
        f"{stamp}start tracing f /repo/a.py:3\n{_WARNS_OF_BUILTIN}{_BUILTIN_OF_2_8}\n{stamp}done tracing f (COMPILE)\n"
    )
    trace = traced(text, tmp_path)
    assert [row.function for row in trace.compiles] == ["f"]
    assert [row.compile for row in trace.graph_breaks] == [row.id for row in trace.compiles]


def test_an_error_in_libraries_alone_is_of_the_function_that_was_compiled(tmp_path: Path) -> None:
    venv = "/usr/local/lib/python3.10/dist-packages/painter"
    text = (
        "Unsupported: inline in skipfiles: Logger.info  | info /usr/lib/python3.10/logging/__init__.py\n\n"
        f'from user code:\n   File "{venv}/unet.py", line 688, in forward\n    self.norm(x)\n'
        f'   File "{venv}/norms.py", line 12, in norm\n    logger.info("forced")\n\n\n'
    )
    place = coldstep.model.Location(f"{venv}/unet.py", 688, "forward")
    [row] = traced(text, tmp_path).compiles
    assert (row.function, row.location) == ("forward", place)
    [row] = traced(text.replace(f"{venv}/norms.py", "/repo/norms.py"), tmp_path).compiles
    assert row.location == coldstep.model.Location("/repo/norms.py", 12, "norm")
    wrapper = (
        '   File "/venv/lib/python3.10/site-packages/torch/_dynamo/external_utils.py", line 38, in inner\n    return\n'
    )
    [row] = traced(text.replace("from user code:\n", f"from user code:\n{wrapper}"), tmp_path).compiles
    assert (row.function, row.location) == ("forward", place)
    alone = f"{text.partition('   File')[0]}{wrapper}\n"
    stack = f'step 1\nTraceback (most recent call last):\n  File "{venv}/server.py", line 5, in serve\n    await it\n'
    for each in (alone, f"{alone}{stack}ValueError: bad\n"):
        [row] = traced(each, tmp_path).compiles
        assert (row.function, row.location) == ("a function", None)
    text = text.replace(f"{venv}/norms.py", "/repo/norms.py") + stack.replace(f"{venv}/server.py", "/repo/serve.py")
    [row] = traced(f"{text}ValueError: bad\n", tmp_path).compiles
    assert row.location == coldstep.model.Location("/repo/norms.py", 12, "norm")


def test_what_explain_prints_below_a_reason_is_of_it_and_a_resumed_function_has_its_name(tmp_path: Path) -> None:
    words = (
        "Failed to trace builtin operator",
        "  Explanation: Dynamo does not know how to trace builtin operator `print`",
    )
    place = "<FrameSummary file /repo/net.py, line 4 in torch_dynamo_resume_in_g_at_3>"
    text = "Break Reasons:\n  Break Reason 1:\n    Reason: {}\n{}\n  Hint: Avoid it.\n    User Stack:\n      {}\n"
    objects = "[GraphCompileReason(reason='{}\\n{}\\n  Hint: Avoid it.', user_stack=[{}], graph_break=True)]\n"
    for each in (text, objects):
        [row] = traced(each.format(*words, place), tmp_path).graph_breaks
        assert (row.kind, row.location) == ("side_effect", coldstep.model.Location("/repo/net.py", 4, "g"))
        assert "know how to trace builtin operator `print`" in row.reason


def test_an_explanation_that_is_not_right_below_a_reason_is_somebody_elses(tmp_path: Path) -> None:
    text = "Break Reasons:\n  Break Reason 1:\n    Reason: generic_jump\n    User Stack:\n"
    text += "      <FrameSummary file /repo/net.py, line 4 in g>\nlint:\n  Explanation: print is never used\n"
    [row] = traced(text, tmp_path).graph_breaks
    assert row.reason == "generic_jump"


def test_the_break_reasons_that_explain_returns_may_be_printed_as_they_are(tmp_path: Path) -> None:
    printed = "user_stack=[<FrameSummary file /repo/net.py, line 4 in g>]"
    frames = "<FrameSummary file /repo/net.py, line 6 in g>, <FrameSummary file /repo/a.py, line 2 in <lambda>>"
    first = f'GraphCompileReason(reason="Failed to trace it\\n  Hint: don\'t", {printed}, graph_break=True)'
    second = f"GraphCompileReason(reason='generic_jump', user_stack=[{frames}], graph_break=True)"
    returns = f"GraphCompileReason(reason='return_value', {printed}, graph_break=False)"
    trace = traced(f"[{first}, {second}, {returns}]\n", tmp_path)
    assert [(row.reason, row.location and row.location.line) for row in trace.graph_breaks] == [
        ("Failed to trace it", 4), ("generic_jump", 2)
    ]  # fmt: skip
    text = "Graph Count: 2\nGraph Break Count: 1\nOp Count: 2\nBreak Reasons:\n  Break Reason 1:\n"
    text += "    Reason: generic_jump\n    User Stack:\n      <FrameSummary file /repo/a.py, line 2 in g>\n"
    assert len(traced(f"[{first}, {second}]\n{text}", tmp_path).graph_breaks) == 1  # the same, and in full
    cut = "reason='Logger not supported', user_stack=[<FrameSummary file /repo/net.py, line 88 in _prepare>\n"
    [row] = traced(f"it breaks for the following reason:\n```\n{cut}```\n", tmp_path).graph_breaks
    assert row.location == coldstep.model.Location("/repo/net.py", 88, "_prepare")
    assert [row.count for row in traced(f"[{first}]\nstep\n[{first}]\n", tmp_path).graph_breaks] == [1]
    quoted = first.replace('"Failed to trace it\\n  Hint: don\'t"', "'\"a\" isn\\'t traced'")
    assert [row.reason for row in traced(f"{quoted}\n", tmp_path).graph_breaks] == ['"a" isn\'t traced']
    in_brackets = second.replace("/repo/", "/repo/[id]/")
    [row] = traced(f"[{in_brackets}]\n", tmp_path).graph_breaks
    assert row.location == coldstep.model.Location("/repo/[id]/a.py", 2, "<lambda>")
    returns_in_brackets, returns_cut = returns.replace("/repo/", "/repo/[id]/"), returns.partition("]")[0]
    for line in (returns_in_brackets, returns_cut):
        with pytest.raises(TraceError, match="holds no"):
            traced(f"{line}\n", tmp_path)
    for line in ("reason='cold', user_stack=['a.py']", f"print({printed})", f"reason=None, {printed}", returns):
        with pytest.raises(TraceError, match="holds no"):
            traced(f"{line}\n", tmp_path)


def test_a_stack_that_is_cut_in_a_path_is_cut(tmp_path: Path) -> None:
    text = (
        "INFO 07-21 15:02:17 [backends.py:472] Dynamo bytecode transform time: 4.92 s\n"
        'ERROR 07-21 15:02:45 [core.py:515]   File "/repo/vllm/v1/engine/core.py", line 83, in __init__\n'
        "ERROR 07-21 15:02:45 [core.py:515]     self._initialize(vllm_config)\n"
    )
    ends = {
        'ERROR 07-21 15:02:45 [core.py:515]   File "/repo/ot': True,
        'ERROR 07-21 15:02:45 [core.py:515]   File "/repo/ot\n': False,
        'ERROR 07-21 15:02:45 [core.py:515]   File "/repo/a.py", line 83, in __init__': False,
        'removed File "a': False,
        'saved "my run': False,
        'look at  File "here': False,
        'ERROR 07-21 15:02:45 [core.py:515]   File "C:\\repo\\ot': True,
        '{"text": "  File': False,
        "done": False,
        "": False,
    }
    for end, is_cut in ends.items():
        (tmp_path / "ci.log").write_text(text + end)
        complaints = convert([str(tmp_path / "ci.log")], str(tmp_path / "ci.pftrace"), lambda read, total: None)
        assert ["is cut in the middle of a line" in each for each in complaints] == [True] * is_cut, end


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


def test_the_midst_of_a_graph_breaks_stack_is_a_graph_break(tmp_path: Path) -> None:
    stamp = "V1203 09:44:10.118000 902 torch/_dynamo/symbolic_convert.py:416] [0/0] [__graph_breaks] "
    words = (
        '  File "/venv/torch/_dynamo/symbolic_convert.py", line 944, in step',
        "    self.dispatch_table[inst](self)",
    )
    trace = traced("".join(f"{stamp}{line}\n" for line in words), tmp_path)
    [row] = trace.graph_breaks
    assert "not in the log" in row.reason
    assert row.location is None
    assert "frame 0" in render(trace)


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
            "W0918 20:03:11.902000 7720 Lib\\site-packages\\torch\\_dynamo\\convert_frame.py:1280]   File "
            '"D:\\env\\Lib\\site-packages\\torch\\_dynamo\\repro\\after_dynamo.py", line 150, in __call__\n\n'
            "W0918 20:03:11.902000 7720 Lib\\site-packages\\torch\\_dynamo\\convert_frame.py:1280]     gm = f()\n",
            "not in the log",
        ),
        (
            "[06:11:42.310] ❌ [ERROR] Error in Phase 1 (Encoding): Data-dependent branching\n"
            "  Explanation: Detected data-dependent branching\n  Hint: Use `torch.cond`.\n\n"
            "  Developer debug context: attempted to jump with TensorVariable()\n\n For more details about this graph "
            "break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html\n\n"
            'from user code:\n   File "/repo/net.py", line 7, in encode\n    if x.sum() > 0:\n',
            "encode failed to compile: Unsupported: Detected data-dependent branching Hint: Use `torch.cond`.",
        ),
        (
            "Dynamic control flow is not supported at the moment. Please use functorch.experimental.control_flow.cond "
            'to\n\nfrom user code:\n  ...\n  File "net.py", line 7, in scale\n    if n > most:\n',
            "scale failed to compile: UserError: Dynamic control flow is not supported at the moment",
        ),
        (
            '  File "/venv/torch/_dynamo/variables/lists.py", line 106, in getitem_const\n    assert index\n'
            'AssertionError:\n\nfrom user code:\n   File "/repo/net.py", line 7, in torch_dynamo_resume_in_step_at_6\n',
            "step failed to compile: AssertionError",
        ),
        (
            'from user code:\n   File "/repo/net.py", line 7, in forward\n    return self.a(x)\n',
            "forward failed to compile: not in the log",
        ),
        (
            "(EngineCore pid=77) ERROR 06-20 16:02:35 [core.py:718] torch._dynamo.exc.Unsupported: no such operation\n"
            "(EngineCore pid=77) ERROR 06-20 16:02:35 [core.py:718]   Explanation: it returned a string\n",
            "it returned a string",
        ),
    ],
    ids=[
        "suppressed",
        "bare",
        "notebook",
        "empty",
        "middle",
        "inner",
        "explained",
        "user",
        "wordless",
        "place",
        "vllm",
    ],
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


def test_compiles_that_overlap_each_have_their_time(tmp_path: Path) -> None:
    line = "2025-11-02T10:21:07.{}Z  INFO backends.__call__: Dynamo bytecode transform time: {} s   \n"
    times = ("118611", "7.94"), ("160190", "8.02"), ("201290", "8.11")
    trace = traced("".join(line.format(*each) for each in times), tmp_path)
    assert sorted(row.wall_ns / 1e9 for row in trace.compiles) == [7.94, 8.02, 8.11]
    assert {row.outcome for row in trace.compiles} == {"compiled"}


def test_a_worker_of_vllms_is_its_rank_and_a_cut_line_is_one(tmp_path: Path) -> None:
    line = "(Worker_TP{0}_EP{0} pid=31{0}) INFO 10-02 14:07:41 [backends.py:559] Dynamo bytecode transform time: {1}\n"
    text = line.format(3, "11.27 s") + line.format(1, "12.40 s")
    cut = "(Worker_TP3_EP3 pid=313) INFO 10-02 14:07:49 [monitor.py:34] torch.compile takes 12."
    trace = traced(text + cut, tmp_path)
    assert sorted(row.rank for row in trace.processes) == [1, 3]
    assert trace.run.ended == "killed"


def test_the_times_of_vllms_lines_are_read(tmp_path: Path) -> None:
    text = (
        "(Worker_TP0 pid=31) INFO 07-02 03:04:05 [backends.py:1128] Dynamo bytecode transform time: 6.25 s\n"
        "(Worker_TP0 pid=31) INFO 07-02 03:04:25 [monitor.py:53] torch.compile took 18.50 s in total\n"
    )
    trace = traced(text, tmp_path)
    assert "-07-02T03:04:06" in trace.run.started  # the whole of it began 18.5 s before the last line
    assert not any("no times" in note for note in trace.run.notes)


def test_a_total_of_vllms_that_counts_the_models_before_is_not_told_twice(tmp_path: Path) -> None:
    text = """\
INFO 08-14 09:10:03 [backends.py:634] Dynamo bytecode transform time: 4.10 s
INFO 08-14 09:10:05 [backends.py:279] Compiling a graph for dynamic shape takes 3.20 s
INFO 08-14 09:10:06 [monitor.py:34] torch.compile takes 7.30 s in total
INFO 08-14 09:10:07 [backends.py:634] Dynamo bytecode transform time: 0.50 s
INFO 08-14 09:10:07 [backends.py:279] Compiling a graph for dynamic shape takes 0.20 s
INFO 08-14 09:10:07 [monitor.py:34] torch.compile takes 8.01 s in total
"""
    assert [row.wall_ns / 1e9 for row in traced(text, tmp_path).compiles] == pytest.approx([7.3, 0.71])


def test_models_of_vllms_that_end_in_one_second_come_one_after_the_other(tmp_path: Path) -> None:
    text = """\
INFO 08-14 09:10:06 [backends.py:634] Dynamo bytecode transform time: 4.10 s
INFO 08-14 09:10:06 [monitor.py:34] torch.compile takes 7.30 s in total
INFO 08-14 09:10:06 [backends.py:634] Dynamo bytecode transform time: 0.50 s
INFO 08-14 09:10:06 [monitor.py:34] torch.compile takes 7.80 s in total
"""
    trace = traced(text, tmp_path)
    assert [row.wall_ns / 1e9 for row in trace.compiles] == pytest.approx([7.3, 0.5])
    assert trace.run.wall_ns / 1e9 == pytest.approx(7.8)


def test_vllms_lines_may_be_indented(tmp_path: Path) -> None:
    line = "    {}INFO 07-02 03:04:05 [backends.py:634] Dynamo bytecode transform time: 6.25 s\n"
    for before in ("", "(EngineCore_DP0 pid=774) "):
        trace = traced(line.format(before), tmp_path)
        assert "-07-02T03:03:58" in trace.run.started


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


def test_lines_before_the_first_that_names_its_process_are_of_that_one(tmp_path: Path) -> None:
    stamp = "[rank0]:E0915 10:21:33.104000 871120 torch/_inductor/select_algorithm.py:2100] [7/0] "
    trace = traced(f"{TUNED}{stamp}Runtime error during autotuning: \n{stamp}Ignoring this choice.\n{TUNED}", tmp_path)
    assert [row.rank for row in trace.processes] == [0]
    assert len(trace.autotuning) == 2


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
    [ended] = traced(f"{numbered.replace('start', 'done')}fn (RETURN_VALUE)\n", tmp_path).compiles
    assert (ended.function, ended.location) == ("fn", None)
    [row] = traced(f"{numbered}fn /repo/debug.py:3\n", tmp_path).compiles
    assert row.location == coldstep.model.Location("/repo/debug.py", 3, "fn")


STACKS = {
    "rank": """\
[rank2]:   File "/venv/torch/_dynamo/variables/nn_module.py", line 351, in call_function
[rank2]:     return tx.inline_user_function_return(
[rank2]:   File "/venv/torch/_dynamo/symbolic_convert.py", line 847, in run
[rank2]:     while self.step():
[rank2]:   File "/ve""",
    "notebook": """\
File ~/venv/torch/_dynamo/symbolic_convert.py:743, in InstructionTranslatorBase.call_function(self, fn, args, kwargs)
    741 if inner_fn and callable(inner_fn) and is_forbidden(inner_fn):
--> 743 self.push(fn.call_function(self, args, kwargs))

File ~/venv/torch/_dynamo/variables/functions.py:796, in FunctoolsPartialVariable.call_function(self, tx, args, kwargs)
""",
    "python-3.13": """\
  File "/venv/torch/_dynamo/symbolic_convert.py", line 3686, in _return
    self.output.compile_subgraph(
    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~^
        self,
        ^^^^^
    ...<2 lines>...
""",
    "inductor": """\
  File "/venv/torch/_inductor/graph.py", line 1964, in codegen
    self.sch""",
    "windows": """\
Traceback (most recent call last):
  File "D:\\env\\Lib\\site-packages\\torch\\_dynamo\\output_graph.py", line 1446, in _call_user_compiler
    compiled_fn = compiler_fn(gm, self.example_inputs())
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    "pytest": """\
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
/venv/torch/_dynamo/eval_frame.py:451: in _fn
    return fn(*args, **kwargs)
/venv/torch/_dynamo/convert_frame.py:921: in catch_errors
    return callback(frame, cache_entry, hooks, frame_state, skip=1)
/usr/lib/python3.8/contextlib.py:75: in inner
    return func(*args, **kwds)
/usr/local/lib/python3.8/dist-""",
    "raised_again": """\
  File "/venv/torch/_dynamo/eval_frame.py", line 749, in compile_wrapper
    raise e.remove_dynamo_frames() from None  # see TORCHDYNAMO_VERBOSE=1
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/torch/_inductor/compile_fx.py", line 923, in _compile_fx_inner
    raise Induc""",
    "head": """\
InductorError                             Traceback (most recent call last)
Cell In[1], line 10
---> 10 print(opt_foo1(torch.randn(10, 10), torch.randn(10, 10)))
""",
    "end": """\
[2025-04-23T16:23:36.217Z] Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're
[2025-04-23T16:23:36.217Z] real\t6m23.727s
""",
    "end_since_2_15": """\
Set TORCHDYNAMO_VERBOSE=1 for the full Dynamo stack trace (please do this especially if you're reporting a bug to
""",
}


@pytest.mark.parametrize("text", STACKS.values(), ids=STACKS)
def test_a_stack_through_dynamo_without_its_error_is_a_failed_compile(text: str, tmp_path: Path) -> None:
    trace = traced(text, tmp_path)
    assert [row.outcome for row in trace.compiles] == ["failed"]
    assert "lines with the error are lost" in failures(trace)[0]


def test_an_error_of_any_class_below_a_stack_through_dynamo_is_that_of_a_compile(tmp_path: Path) -> None:
    assert failures(traced(f"{STACKS['windows']}OSError: [WinError 2] no such file\n", tmp_path)) == [
        "a function failed to compile: OSError: [WinError 2] no such file"
    ]
    with pytest.raises(TraceError, match="holds no"):  # what the log goes on with shows that none was printed
        traced(f"{STACKS['windows']}step 2 loss 0.4\nOSError: no such file\n", tmp_path)


def test_an_error_that_pytest_sums_up_is_one(tmp_path: Path) -> None:
    text = (
        f"{STACKS['pytest']}\nE   torch._dynamo.exc.Unsupported: no such operation here\n\n/venv/x.py:3: Unsupported\n"
    )
    summary = "FAILED tests/test_net.py::test_step - torch._dynamo.exc.Unsupported: no such op...\n"
    assert failures(traced(text + summary, tmp_path)) == [
        "a function failed to compile: Unsupported: no such operation here"
    ]


def test_a_stack_below_dynamos_own_lines_is_that_of_the_compile_that_they_tell_of(tmp_path: Path) -> None:
    text = (
        "V0527 21:10:03.101000 15 site-packages/torch/_dynamo/symbolic_convert.py:5474] [0/0] FAILED INLINING <code\n"
        "I0527 21:10:03.105000 15 site-packages/torch/_dynamo/convert_frame.py:2036] [0/0] run_gc_after_compile: gc\n"
    )
    trace = traced(f"{text}Traceback (most recent call last):\n{STACKS['python-3.13']}", tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [("frame 0", "failed")]


def test_an_error_is_made_of_one_that_no_compiler_has_named(tmp_path: Path) -> None:
    text = (
        "RuntimeError: enter() expected at most 2 argument(s)\n\nThe above exception was the direct cause of the "
        'following exception:\n\nTraceback (most recent call last):\n  File "/a/b.py", line 1, in create\n'
        "torch._dynamo.exc.TorchRuntimeError\n"
    )
    [error] = failures(traced(text, tmp_path))
    assert error.endswith("TorchRuntimeError; made of RuntimeError: enter() expected at most 2 argument(s)")


def test_an_error_names_the_one_that_it_was_made_of(tmp_path: Path) -> None:
    text = (
        "torch._dynamo.exc.Unsupported: Call to `torch._dynamo.graph_break()`\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "/repo/play.py", line 23, in <module>\n    fn()\n'
        "torch._dynamo.exc.Unsupported: Graph break under GenericContextWrappingVariable\n"
    )
    [error] = failures(traced(text, tmp_path))
    assert "GenericContextWrappingVariable; made of Unsupported: Call to `torch._dynamo.graph_break()`" in error


def test_an_error_while_compiled_code_runs_is_no_failed_compile(tmp_path: Path) -> None:
    text = (
        '  File "/venv/torch/_functorch/_aot_autograd/runtime_wrappers.py", line 667, in inner_fn\n'
        '  File "/venv/torch/_inductor/utils.py", line 2006, in run\n    return model(new_inputs)\n'
        '  File "/tmp/torchinductor_me/p5/cp5.py", line 35, in call\nAssertionError: expected size 128==256\n'
    )
    with pytest.raises(TraceError, match="holds no"):
        traced(text, tmp_path)


def test_an_error_at_a_limit_alone_is_a_failed_compile(tmp_path: Path) -> None:
    text = (
        "torch._dynamo.exc.Unsupported: Dynamo recompile limit exceeded\n  Developer debug context: Limit type\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "torch._dynamo.exc.FailOnRecompileLimitHit: Hard failure due to fullgraph=True\n"
    )
    [error] = failures(traced(text, tmp_path))
    assert error.startswith(
        "a function failed to compile: FailOnRecompileLimitHit: Hard failure due to fullgraph=True;"
    )
    assert "made of Unsupported: Dynamo recompile limit exceeded" in error


def test_a_size_whose_begin_is_lost_is_made_a_constant_by_a_line(tmp_path: Path) -> None:
    stamp = "[2024-03-04 09:20:11,102] [0/4] torch.fx.experimental.symbolic_shapes: [INFO] "
    text = f"{stamp}eval Eq(s6, 141022) [guard added] at gnn/base.py:98 in expand (fx/sym_node.py:320 in guard_int)\n"
    cut = "[2024-03-04 09:20:11,257] [0/4] torch.fx.experimental.symbo"
    trace = traced(text + cut, tmp_path)
    assert (
        "s6 (141022) is compiled in, since this line needs it: gnn/base.py:98 in expand" in trace.recompiles[0].evidence
    )
    assert trace.run.ended == "killed"


def test_a_dimension_that_may_not_vary_is_a_failed_compile(tmp_path: Path) -> None:
    text = (
        "torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Constraints violated (L['x'].size()[0])! For "
        'more information, run with TORCH_LOGS="+dynamic".\n'
        "  - You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (7).\n"
    )
    assert "specialized it to be a constant (7)" in failures(traced(text, tmp_path))[0]


def test_guards_that_cannot_be_made_are_a_failed_compile(tmp_path: Path) -> None:
    stamp = "0122 19:29:11.898000 26289 site-packages/torch/"
    text = (
        f"I{stamp}fx/experimental/symbolic_shapes.py:3646] [0/0] produce_guards\n"
        f"E{stamp}_guards.py:283] [0/0] Error while creating guard:\n"
        f"E{stamp}_guards.py:283] [0/0] Name: ''\n"
    )
    assert [row.outcome for row in traced(text, tmp_path).compiles] == ["failed"]


def test_a_size_that_a_guards_words_lack_is_not_known(tmp_path: Path) -> None:
    text = (
        "V0412 20:15:09.771000 1840 torch/_dynamo/guards.py:3050] [0/1] [__recompiles]     - 0/0: "
        "math.trunc(self._modules['embed'].most ** 0.5) != (hidden.size()[3] // self._modules['embed'].patch)\n"
    )
    trace = traced(text, tmp_path)
    assert (trace.recompiles[0].cause, trace.recompiles[0].argument) == ("shape", "hidden")
    assert "→ not known" in " ".join(render(trace).split())


REPORTED = """\
- **Exception Type:** torch._dynamo.exc.BackendCompilerFailed
- **Exception Message:** backend='inductor' raised:
RuntimeError: `ptxas` failed with error code 4294967295: 

KSampler
backend='inductor' raised:
RuntimeError: `ptxas` failed with error code 4294967295:

Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information
"""


def test_an_error_that_a_report_has_by_its_class_and_twice_is_one(tmp_path: Path) -> None:
    [error] = failures(traced(REPORTED, tmp_path))
    assert "BackendCompilerFailed: backend='inductor' raised: RuntimeError: `ptxas` failed" in error


def test_a_recompile_with_all_its_guards_need_have_no_stamp(tmp_path: Path) -> None:
    text = (
        "('Recompiling function scale in /repo/misc.py:4578', 'triggered by the following guard failures: "
        "[\"___check_type_id(L[\\'obj\\'], 94834370481168)\", \"L[\\'obj\\'].x == -0.5\"]')\n"
    )
    [row] = traced(text, tmp_path).recompiles
    assert (row.cause, row.argument) == ("type", "obj")
    assert row.evidence == ["___check_type_id(L['obj'], 94834370481168)", "L['obj'].x == -0.5"]


def test_a_path_that_an_editor_has_made_a_link_is_a_place(tmp_path: Path) -> None:
    stamp = "V0923 14:11:42.775000 98000 torch/_dynamo/guards.py:2830] [0/1] [__recompiles] "
    text = (
        f"{stamp}Recompiling function step in [/repo/a.py:38](https://file+.vscode-resource.cdn.net/repo/a.py:38)\n"
        f"{stamp}    triggered by the following guard failure(s):\n{stamp}    - 0/0: n == 4\n"
    )
    [row] = traced(text, tmp_path).compiles
    assert row.location == coldstep.model.Location("/repo/a.py", 38, "step")


def test_a_recompile_that_is_cut_in_its_words_does_not_ask_for_what_was_on(tmp_path: Path) -> None:
    text = "V1023 15:27:58.484000 177 torch/_dynamo/guards.py:2813] [1/5] [__recompiles] Recompiling functi"
    [row] = traced(text, tmp_path).recompiles
    assert "TORCH_LOGS=recompiles" not in (row.advice or "")
    assert "are lost" in row.evidence[0]


def test_the_keys_of_a_dict_in_pytorch_2_2_are_a_cause(tmp_path: Path) -> None:
    stamp = "[2023-12-17 09:31:02,294] torch._dynamo.convert_frame: [WARNING] "
    text = (
        f"{stamp}torch._dynamo hit config.cache_size_limit (8)\n{stamp}   function: 'step' (/repo/adamax.py:151)\n"
        f"{stamp}   last reason: ___dict_param_key_ids(L['self'].state) == {{140040850413000, 140040908327000}}\n"
    )
    [limit] = [row for row in traced(text, tmp_path).findings if row.kind == "cache_limit"]
    assert "keys of self.state" in (limit.advice or "")


def test_lines_that_a_page_has_joined_are_taken_apart(tmp_path: Path) -> None:
    first, second = (
        f"Recompiling function gn in /tmp/{n}.py:1 triggered by the following guard failure(s)" for n in "67"
    )
    text = (
        f"{first}: - 0/0: tensor 'x' size mismatch at index 0. expected 6, actual 9\n"
        f"tensor([2., 2.])\n{second}: - 2/0: c == 0.5 # return x + c # 7.py:3 in gn{second}: - 2/1: tensor 'x' size "
        "mismatch at index 0. expected 1, actual 2 - 2/0: c == 0.5 # return x + c # 7.py:3 in gn\n"
    )
    trace = traced(text, tmp_path)
    assert [(row.cause, row.argument) for row in trace.recompiles] == [
        ("shape", "x"), ("python_scalar", "c"), ("shape", "x")
    ]  # fmt: skip


def test_the_warning_of_a_value_that_is_read_may_be_cut_or_have_no_stamp(tmp_path: Path) -> None:
    words = (
        "Graph break from `Tensor.item()`, consider setting:",
        "    torch._dynamo.config.capture_scalar_outputs = True",
    )
    stamp = "W0729 14:35:56.100000 99840 torch/_dynamo/variables/tensor.py:751] [0/0] "
    [row] = traced("".join(f"{stamp}{line}\n" for line in words), tmp_path).graph_breaks
    assert (row.kind, row.location) == ("data_dependent", None)
    stack = (
        "",
        "Graph break: from user code at:",
        '  File "/repo/a.py", line 7, in f',
        "    n = x.item()",
        "",
        "step 2",
    )
    [row] = traced("".join(f"{line}\n" for line in (*words, *stack)), tmp_path).graph_breaks
    assert (row.kind, row.location) == ("data_dependent", coldstep.model.Location("/repo/a.py", 7, "f"))


BREAKS_OF_2_0 = """\
{0}Graph break: call_function BuiltinVariable(print) [ConstantVariable(str)] {{}} from user code at   File "/repo/net.py", line 12, in forward
    print("x")

{0}Graph break: call_method UserDefinedObjectVariable(Timer) start [] {{}} from user code at   File "/repo/net.py", line 30, in <graph break in forward>
    y = self.inner(x)
  File "/repo/inner.py", line 7, in inner
    timer.start()

epoch 1 loss 0.3
"""  # noqa: E501


@pytest.mark.parametrize(
    "stamp",
    [
        "[2023-03-29 17:25:03,541] torch._dynamo.symbolic_convert: [WARNING] ",
        "torchdynamo.symbolic_convert: [WARNING] ",
    ],
)
def test_a_graph_break_of_pytorch_2_0_begins_in_one_line(stamp: str, tmp_path: Path) -> None:
    trace = traced(BREAKS_OF_2_0.format(stamp), tmp_path)
    assert [(row.kind, row.location) for row in trace.graph_breaks] == [
        ("side_effect", coldstep.model.Location("/repo/net.py", 12, "forward")),
        ("unsupported_call", coldstep.model.Location("/repo/inner.py", 7, "inner")),
    ]
    assert trace.recompiles == []


def test_a_graph_break_without_its_begin_has_its_reason(tmp_path: Path) -> None:
    stamp = "V0423 16:43:09.047000 140 torch/_dynamo/symbolic_convert.py:527] [0/0] [__graph_breaks] "
    text = (
        f"{stamp}    raise Unsupported(msg)\n{stamp}torch._dynamo.exc.Unsupported: 'skip function graph_break in file "
        "/venv/torch/_dynamo/decorators.py'\n"
    )
    [row] = traced(text, tmp_path).graph_breaks
    assert (row.kind, row.location) == ("explicit", None)


def test_inductor_tells_how_long_it_took_and_what_its_cache_answered(tmp_path: Path) -> None:
    stamp = "[2023-10-02 07:04:{},494] [0/0] torch._inductor.{}: [DEBUG] "
    text = (
        f"{stamp.format('06', 'codecache')}fx graph cache: on-disk miss for key fihwjtavgh7lffl6lvcq5om25us65tp\n"
        f"{stamp.format('06', 'compile_fx')}Step 3: torchinductor compiling FORWARDS graph 0\n"
        f"{stamp.format('10', 'compile_fx')}FX codegen and compilation took 3.500s\n"
    )
    [row] = traced(text, tmp_path).compiles
    assert row.wall_ns == 4_000_000_000
    assert row.segments[0].phases == {"inductor.compile": 3_500_000_000}
    assert [(cache.layer, cache.state) for cache in row.caches] == [("inductor.fx_graph", "miss")]


@pytest.mark.parametrize(
    "rows",
    [
        "Function, Runtimes (s)\n_compile.compile_inner, 23.5, 0.5\nbytecode_tracing, 0.2581\n",
        "Function                                  Runtimes (s)\n----------------  ------------\n"
        "torch._dynamo.convert_frame._compile      23.5, 0.5\ntorch._inductor.graph.Lowering.run  4.1840, 0.0092\n",
    ],
    ids=["comma", "table"],
)
def test_pytorchs_own_seconds_are_compiles(rows: str, tmp_path: Path) -> None:
    trace = traced(f"TorchDynamo compilation metrics:\n{rows}", tmp_path)
    assert [row.wall_ns / 1e9 for row in trace.compiles] == [23.5, 0.5]
    assert trace.recompiles == []


def test_what_explain_prints_is_a_graph_break(tmp_path: Path) -> None:
    text = (
        "Graph Count: 2\nGraph Break Count: 1\nOp Count: 2\nBreak Reasons:\n  Break Reason 1:\n"
        "    Reason: call_function BuiltinVariable(print) [ConstantVariable(str)] {}\n    User Stack:\n"
        "      <FrameSummary file /repo/shown.py, line 6 in step>\nOps per Graph:\n"
    )
    [row] = traced(text, tmp_path).graph_breaks
    assert (row.kind, row.location) == ("side_effect", coldstep.model.Location("/repo/shown.py", 6, "step"))


def test_two_operations_that_are_tuned_at_one_moment_have_a_time_each(tmp_path: Path) -> None:
    rows = traced(TUNED + TUNED.replace("0.9773", "0.5").replace("512x197", "512x198"), tmp_path).autotuning
    assert [row.timing_ns for row in rows] == [977_300_000, 500_000_000]


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
        (
            "DEBUG 03-06 02:42:37 [backends.py:134] store the 0-th graph for shape None from inductor via\n",
            "compiled",
            {},
        ),
        (
            "DEBUG 09-08 14:33:31 [backends.py:124] Directly load the 24-th graph for dynamic shape from inductor via "
            "handle\n",
            "cache_hit",
            {},
        ),
    ],
    ids=["compiled", "loaded", "quoted", "stored", "loaded-by-number"],
)
def test_vllm_tells_what_each_part_took(text: str, outcome: str, seconds: dict[str, float], tmp_path: Path) -> None:
    [row] = traced(text, tmp_path).compiles
    assert row.outcome == outcome
    assert {name: ns / 1e9 for name, ns in row.segments[0].phases.items() if ns} == pytest.approx(seconds)


def test_vllm_compiles_for_shapes_on_tpus(tmp_path: Path) -> None:
    text = (
        "INFO 03-30 06:47:51 [tpu_model_runner.py:769] Compiling the model with different input shapes.\n"
        "INFO 03-30 06:47:51 [tpu_model_runner.py:773]   -- num_tokens: 16\n"
        "INFO 03-30 06:48:36 [tpu_model_runner.py:778] Compilation finished in in 45.09 [secs].\n"
        "INFO 03-30 06:48:36 [tpu_model_runner.py:780] Compiling sampling with different input shapes.\n"
    )
    rows = traced(text, tmp_path).compiles
    assert [(row.outcome, row.wall_ns) for row in rows] == [("compiled", 45_090_000_000), ("in_progress", 0)]


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


FOLDED = """\
2024-11-07 18:05:12.1: E external/xla/slow_operation_alarm.cc:65] Constant folding an instruction is taking > 1s:

  %reduce-window.9 = s32[625000,16]{0,1} reduce-window(s32[625000,16]{0,1} %constant.181), to_apply=%region_5.120

This isn't necessarily a bug; constant-folding is inherently a trade-off between compilation time and speed at runtime.

2024-11-07 18:05:17.9: E external/xla/xla/service/slow_operation_alarm.cc:133] The operation took 6.790128s
Constant folding an instruction is taking > 1s:

  %reduce-window.9 = s32[625000,16]{0,1} reduce-window(s32[625000,16"""


def test_constants_that_xla_folds_need_no_function_and_have_its_time_and_line(tmp_path: Path) -> None:
    trace = traced(FOLDED, tmp_path)
    assert [row.function for row in trace.compiles] == ["a program"]
    assert "folded constants in it for 6.79 s (" in "".join(trace.collectors[0].missing)
    metadata = 'metadata={op_name="jit(step)/jit(main)/scatter" source_file="/repo/net.py" source_line=61}'
    placed = FOLDED.replace("to_apply=%region_5.120", metadata).partition("2024-11-07 18:05:17")[0]
    trace = traced(f"{placed}2024-11-07 18:05:17.9: E slow_operation_alarm.cc:133] The operation took 1.43", tmp_path)
    assert [row.function for row in trace.compiles] == ["step"]
    assert "in it for more than 1 s, at /repo/net.py:61 (" in "".join(trace.collectors[0].missing)


def test_a_time_below_constants_may_be_that_of_a_compile(tmp_path: Path) -> None:
    took = "2024-11-07 18:09:17.9: E slow_operation_alarm.cc:133] The operation took 2m6.5s\n\n"
    alarm = "[Compiling module jit_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=\n"
    trace = traced(FOLDED.partition("2024-11-07 18:05:17")[0] + took + alarm, tmp_path)
    assert sorted((row.function, row.wall_ns) for row in trace.compiles) == [
        ("a program", 0),
        ("step", 126_500_000_000),
    ]
    assert "for more than 1 s" in "".join(trace.collectors[0].missing)


def test_constants_that_jax_warns_of_are_those_of_a_program(tmp_path: Path) -> None:
    text = (
        "UserWarning: A large amount of constants were captured during lowering (96.00GB total). \nIf this is "
        "intentional, disable this warning by setting JAX_CAPTURED_CONSTANTS_WARN_BYTES=-1. \n"
    )
    trace = traced(text, tmp_path)
    assert [row.function for row in trace.compiles] == ["a program"]
    [_, missing] = trace.collectors[0].missing
    assert "holds 96.00GB of constants" in missing
    assert "JAX_CAPTURED_CONSTANTS_REPORT_FRAMES" in missing


OUT_OF_MEMORY = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in "
    "memory space hbm. Used 20.71G of 7.48G hbm. Exceeded hbm capacity by 13.23G.\n"
)


def test_a_program_too_large_for_its_device_is_a_failed_compile(tmp_path: Path) -> None:
    [error] = failures(traced(f'  File "/repo/fit.py", line 65, in train\n{OUT_OF_MEMORY}', tmp_path))
    assert error.startswith(
        "a program failed to compile: XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent"
    )
    assert "Used 20.71G of 7.48G hbm" in error
    largest = '  1. Size: 2.00G\n     Operator: op_name="jit(train_step)/jit(main)/jvp(Net)/dot_general[dimension_num\n'
    [error] = failures(traced(f"{OUT_OF_MEMORY}\nTotal hbm usage >= 21.3G:\n{largest}{OUT_OF_MEMORY}", tmp_path))
    assert error.startswith("train_step failed to compile")


@pytest.mark.parametrize(
    "error",
    [
        "JaxRuntimeError: INTERNAL: Autotuning failed for HLO: %fusion.12 = f32[8,8]{1,0} fusion(%p), kind=kCustom",
        "XlaRuntimeError: UNIMPLEMENTED: ptxas too old. Falling back to the driver to compile.",
        "XlaRuntimeError: INTERNAL: libdevice not found at ./libdevice.10.bc",
    ],
)
def test_what_fails_below_xla_is_a_failed_compile(error: str, tmp_path: Path) -> None:
    text = f'Traceback (most recent call last):\n  File "/repo/fit.py", line 65, in train\njax.errors.{error}\n'
    assert failures(traced(text, tmp_path)) == [f"a program failed to compile: {error}"]


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


def test_where_an_older_jax_begins_the_next_compile_the_last_one_is_over(tmp_path: Path) -> None:
    names = ("_where", "rates", "_where", "steps")
    text = "".join(
        f"WARNING:absl:Compiling {name} for args (AbstractUnit(), ShapedArray(int64[])).\n" for name in names
    )
    rows = traced(text, tmp_path).compiles
    assert sorted((row.function, row.outcome) for row in rows) == [
        ("_where", "compiled"), ("_where", "compiled"), ("rates", "compiled"), ("steps", "in_progress")
    ]  # fmt: skip


def test_a_compile_of_jaxs_that_is_cut_in_its_line_is_one(tmp_path: Path) -> None:
    text = (
        "WARNING:2025-08-19 18:15:49,419:jax._src.dispatch:98: Finished tracing + transforming solve for jit in 1 sec\n"
        "WARNING:2025-08-19 18:15:49,420:jax._src.interpreters.pxla:1861: Compiling jit(solve) with global s"
    )
    [row] = traced(text, tmp_path).compiles
    assert (row.function, row.outcome) == ("solve", "in_progress")


@pytest.mark.parametrize(
    "words", ["Very slow compile?  If you want to file a bug, run", "Slow compile?  XLA was built without compiler"]
)
def test_an_alarm_without_a_name_is_one_compile(words: str, tmp_path: Path) -> None:
    [row] = traced(f"> {'*' * 32}\n> {words}\n> {'*' * 32}\n", tmp_path).compiles
    assert (row.function, row.outcome) == ("a program", "in_progress")


def test_the_alarm_at_constants_that_are_folded_names_the_function(tmp_path: Path) -> None:
    folded = (
        "2024-05-18 10:06:06.194439: E external/xla/xla/service/slow_operation_alarm.cc:65] Constant folding an "
        "instruction is taking > {}s:\n\n"
        '  %reduce.4 = f64[90000,6]{{1,0}} reduce(f64[] %constant.2), metadata={{op_name="jit(total)/jit(main)/sum'
        '[axes=(2,)]" source_file="..." source_line=21}}\n\nThis isn\'t necessarily a bug; constant-folding is\n'
    )
    trace = traced(folded.format(1) + folded.format(4), tmp_path)
    assert [row.function for row in trace.compiles] == ["total"]
    assert "folded constants in it for more than 4 s" in "".join(trace.collectors[0].missing)


def test_instructions_of_one_name_in_two_programs_are_two(tmp_path: Path) -> None:
    folded = (
        "{}: E slow_operation_alarm.cc:65] Constant folding an instruction is taking > 1s:\n\n"
        '  %reduce.8 = f64[9]{{0}} reduce(f64[] %constant.2), metadata={{op_name="jit({})/jit(main)/sum" '
        'source_file="train.py" source_line={}}}\n\n'
        "{}: E slow_operation_alarm.cc:133] The operation took {}\nConstant folding an instruction is taking > 1s:\n\n"
        "  %reduce.8 = f64[9]{{0}} reduce(f64[] %constant.2)\n\n"
    )
    of_f = folded.format("2024-05-18 10:06:06.1", "f", 13, "2024-05-18 10:06:12.6", "6.5s")
    of_g = folded.format("2024-05-18 10:07:06.1", "g", 99, "2024-05-18 11:13:12.6", "1h6m3.5s")
    trace = traced(of_f + of_g, tmp_path)
    said = "".join(trace.collectors[0].missing)
    assert "that XLA folded constants in it for 6.5 s, at train.py:13" in said
    assert "that XLA folded constants in it for 3964 s, at train.py:99" in said


def test_the_end_of_a_long_error_is_of_that_error(tmp_path: Path) -> None:
    error = "torch._inductor.exc.InductorError: CppCompileError: C++ compile error\n"
    output = "".join(f"x.cpp:{line}: error: expected ';'\n" for line in range(70))
    end = '\nfrom user code:\n   File "/repo/train.py", line 12, in step\n    return x.sin()\n'
    trace = traced(f"{error}{output}{end}", tmp_path)
    assert [(row.function, row.outcome) for row in trace.compiles] == [("step", "failed")]


def test_what_two_handlers_write_of_a_first_trace_is_no_recompile(tmp_path: Path) -> None:
    process = "(EngineCore_DP0 pid=77441) "
    words = (
        "TRACING CACHE MISS at /repo/run.py:77:17 (run) costing 31.635 ms because:",
        "  never seen function:",
        "    pick id=125890840911144 defined at /repo/sampling.py:29",
    )
    lines = [
        f"{process}{form if line.startswith('T') else ''}{line}\n"
        for form in ("WARNING:2026-03-09 02:11:18,021:jax._src.pjit:1108: ", "WARNING:jax._src.pjit:")
        for line in words
    ]
    trace = traced("".join(lines), tmp_path)
    assert [row.function for row in trace.compiles] == ["pick"]
    assert trace.recompiles == []


def test_what_jax_explains_counts_more_than_xlas_alarms(tmp_path: Path) -> None:
    compiled = "Finished XLA compilation of jit(step) in 130.5 sec\n"
    [row] = traced(ALARM_WITH_A_NUMBER + ALARM_OF_2022 + compiled, tmp_path).compiles
    assert (row.function, row.wall_ns) == ("step", 130_500_000_000)


UNTRACED = """\
  File "/repo/venv/jax/_src/core.py", line 1803, in concretization_err_msg
jax._src.traceback_util.UnfilteredStackTrace: jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array with shape bool[].
The error occurred while tracing the function assign at /repo/means.py:41 for jit. This concrete value was not available in Python because it depends on the value of the argument points.
See https://docs.jax.dev/en/latest/errors.html#jax.errors.TracerBoolConversionError
--------------------
The stack trace below excludes JAX-internal frames.
jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array with shape bool[].
The error occurred while tracing the function assign at /repo/means.py:41 for jit. This concrete value was not available in Python because it depends on the value of the argument points.
See https://docs.jax.dev/en/latest/errors.html#jax.errors.TracerBoolConversionError
"""  # noqa: E501


def test_a_function_that_jax_could_not_trace_is_one_failed_compile(tmp_path: Path) -> None:
    other = UNTRACED.replace("assign at /repo/means.py:41", "spread at /repo/means.py:60")
    cut = UNTRACED.partition("See ")[0].rpartition("The error occurred")[0]
    trace = traced(UNTRACED + other + cut, tmp_path)
    places = [coldstep.model.Location("/repo/means.py", line, name) for line, name in ((41, "assign"), (60, "spread"))]
    assert sorted((row.location for row in trace.compiles), key=str) == places
    assert [row.outcome for row in trace.compiles] == ["failed", "failed"]
    assert all("the argument points" in text for text in failures(trace))
    assert "jax.lax.cond" in render(trace, width=200)


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


def test_an_entry_may_begin_amid_a_line_and_count_what_each_compile_has(tmp_path: Path) -> None:
    assert len(traced("Prediction: ****Metric: CompileTime\n  TotalSamples: 12\n", tmp_path).compiles) == 12
    text = "Metric: ExecuteTime\n  TotalSamples: 210\nMetric: InputOutputAliasCount\n  TotalSamples: 17\n"
    assert len(traced(text, tmp_path).compiles) == 17


def test_torch_xlas_lines_in_cpp_tell_when_a_graph_compiled(tmp_path: Path) -> None:
    line = (
        "2022-03-17 23:5{}.5: I torch_xla/csrc/tensor.cpp:1556] Compiling IR graph hash {}f66499 on device TPU:0 {}\n"
    )
    text = line.format("0:18", "d", "...") + line.format("1:22", "d", "done!") + line.format("1:32", "e", "...")
    rows = traced(text, tmp_path).compiles
    assert [(row.outcome, row.wall_ns) for row in rows] == [("compiled", 64_000_000_000), ("in_progress", 0)]


def test_a_report_of_what_runs_that_is_cut_is_cut_amid_no_compile(tmp_path: Path) -> None:
    text = "Execution Analysis: ====\nExecution Analysis: Execution Cause\nExecution Analysis:   user mark_step\n"
    trace = traced(text, tmp_path)
    assert (trace.compiles, trace.run.ended) == ([], "ok")


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
    trace = traced(text, tmp_path)
    assert [row.stack for row in trace.compiles] == ["tensorflow"]
    assert trace.run.started == "2024-01-02T10:00:00.123+00:00"  # of Abseil's stamp, which is a number


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
        "    except jax.errors.TracerBoolConversionError: return None",
        'with pytest.raises(match="TracerBoolConversionError: Attempted boolean"):',
        "WARNING retry: caught TracerBoolConversionError: Attempted boolean, using lax.cond instead",
    ],
)
def test_what_only_looks_like_such_a_line_is_none(line: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no"):
        traced(f"step 1 loss 0.5\n{line}\nstep 2 loss 0.4\n" * 3, tmp_path)


FOLDING = """\
2022-11-02 15:40:12.1: E external/xla/xla/service/slow_operation_alarm.cc:65] Constant folding an instruction is taking > 1s:

  %{0} = f32[4] add(f32[4] %c), metadata={{op_name="jit({1})/jit(main)/add"}}

If you'd like to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and attach the results.
"""  # noqa: E501
FOLDED_IN = (
    "2022-11-02 15:40:13.9: E external/xla/xla/service/slow_operation_alarm.cc:133] The operation took 2.784101s\n"
)
OF_ANOTHER = FOLDED_IN.partition("The operation")[0] + "Something else is taking > 10s\n"
AGAIN = FOLDING.partition("] ")[2]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (FOLDING.format("add.1", "f") + FOLDED_IN + "Constant", ["2.78 s"]),
        (FOLDING.format("add.1", "f") + FOLDED_IN, ["2.78 s"]),
        (FOLDING.format("add.1", "f") + FOLDING.format("add.2", "g") + FOLDED_IN, ["more than 1 s"] * 2),
        (FOLDING.format("add.1", "f") + FOLDED_IN + "step\n" * 9, ["more than 1 s"]),
        (FOLDING.format("add.1", "f").replace("> 1s", "> 4s") + FOLDED_IN, ["more than 4 s"]),
        (FOLDING.format("add.1", "f") + OF_ANOTHER + FOLDED_IN, ["more than 1 s"]),
        (OF_ANOTHER + FOLDED_IN + FOLDING.format("add.1", "f") + FOLDED_IN, ["2.78 s"]),
        (FOLDING.format("add.1", "f") + FOLDED_IN + "\n***\n[Compiling module jit_g] Very slow", ["more than 1 s"]),
        ("[Compiling module jit_g] Very slow compile?\n" + FOLDING.format("add.1", "f") + FOLDED_IN, ["more than 1 s"]),
        (
            FOLDING.format("a.1", "f") + FOLDING.format("a.2", "g") + FOLDED_IN + AGAIN.format("a.2", "g"),
            ["more than 1 s", "2.78 s"],
        ),
    ],
    ids=[
        "cut",
        "ended",
        "two",
        "goes on",
        "too short",
        "open alarm",
        "ended alarm",
        "a compile's",
        "an open compile's",
        "another's",
    ],
)
def test_the_time_that_a_log_ends_with_is_of_the_one_alarm_that_is_open(
    text: str, times: list[str], tmp_path: Path
) -> None:
    missing = [words for words in traced(text, tmp_path).collectors[0].missing if "folded constants" in words]
    assert [words.partition("in it for ")[2].partition(" (a large")[0] for words in missing] == times


def test_functions_that_could_not_be_traced_come_in_their_order(tmp_path: Path) -> None:
    text = "".join(
        f"jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array with shape bool[{n}].\n"
        f"The error occurred while tracing the function {name} at /repo/{name}.py:1{n} for jit. This value\n"
        for n, name in enumerate(("first", "second"))
    )
    assert [row.function for row in traced(text, tmp_path).compiles] == ["first", "second"]


ORDINARY = {
    "cmake-ninja": """\
-- The CXX compiler identification is GNU 12.2.0
-- Compiling features cached; graph of 412 targets written to build.ninja
[1/412] Building CXX object src/CMakeFiles/graph.dir/cache_key.cpp.o
[2/412] Building CUDA object src/CMakeFiles/kernels.dir/step.cu.o
/repo/src/step.cu(12): warning #177-D: variable "n" was declared but never referenced
Recompiling function table generated.h because 3 of its inputs changed
ninja: build stopped: subcommand failed.
make: *** [Makefile:12: all] Error 2
""",
    "webpack": """\
[webpack-dev-server] Compiling...
webpack 5.88.2 compiled with 2 warnings in 14073 ms
<i> [webpack.cache.PackFileCacheStrategy] restore cache: 217.3 ms
Module not found: Error: Can't resolve './graph' in '/repo/web'
[HMR] Cannot apply update: recompile needed, limit (8) of retries hit
Compiled successfully! Cache miss for 3 modules, hit for 1204.
""",
    "julia-elixir": """\
Precompiling project...
  32 dependencies successfully precompiled in 97 seconds. 141 already precompiled.
[ Info: Precompiling Flux [587475ba-b771-5e3f-ad9e-33799f191a9c] (cache misses: wrong dep version loaded (2))
==> phoenix
Compiling 71 files (.ex)
Compiling lib/app/step.ex (it's taking more than 10s)
Generated app app
warning: function train/2 is unused, recompile with --force to see all
""",
    "pytest-of-a-cache": """\
tests/test_cache.py::test_hit PASSED                                     [ 50%]
tests/test_graph.py::test_break FAILED                                   [100%]
=================================== FAILURES ===================================
    def test_break():
>       assert compile(graph, cache_size_limit=8).break_reason == "loop"
E       AssertionError: assert None == 'loop'
E       RuntimeError: graph break in node 7: unsupported edge
tests/test_graph.py:31: AssertionError
------------------------------ Captured log call -------------------------------
WARNING  graph.compiler:compiler.py:12 Compiling graph for 3 nodes takes 1.2 s in all
========================= 1 failed, 1 passed in 0.42s ==========================
""",
    "pip-and-nvcc": """\
Collecting torch==2.6.0
  Using cached torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl (766.7 MB)
Building wheels for collected packages: flash-attn
  running build_ext
  [1/85] nvcc --generate-dependencies-with-compile -c csrc/flash_fwd.cu -o build/flash_fwd.o
  File "/build-env/torch/utils/cpp_extension.py", line 1740, in _compile
  File "/build-env/torch/_dynamo/eval_frame.py", line 12, in <module>
  subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.
Compilation finished in 412.3 secs
""",
    "a-test-of-a-linter": """\
tests/test_rules.py:31: in test_rule
    check(rule)
/venv/lib/python3.11/site-packages/lint/rules.py:12: in check
    raise RuleError(rule)
E       lint.RuleError: W12
  Explanation: large constants were captured in a closure
  Hint: pass them as arguments
error from user code: 3 warnings
E       RuntimeError: compilation failed: out of memory in memory space of the host
FAILED tests/test_rules.py::test_rule - lint.RuleError: W12
torch.compile takes a callable
""",
    "a-training-run": """\
INFO: torch.compile is off; set compile: true to turn it on
GPU 0: cache 0 hits, 0 misses | metric: CompileTime n/a
Epoch 1/2 - graph break at node 12 of the road network
skipping samples with different input shapes: 14
epoch 1:  12%|#2        | 12/100 [00:10<01:20,  1.10it/s] loss 0.52
/repo/train.py:12: UserWarning: Recompiling the word index took 3.1 s in total
Traceback (most recent call last):
  File "/repo/train.py", line 88, in <module>
    loss.backward()
  File "/venv/torch/_dynamo/eval_frame.py", line 663, in _fn
    return fn(*args, **kwargs)
RuntimeError: CUDA error: an illegal memory access was encountered
""",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_log_with_such_words_holds_no_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no line"):
        traced(text, tmp_path)
