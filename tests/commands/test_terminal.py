"""The report as a reader sees it: what it says, that its figures add up, and that nothing in a trace can harm it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_trace import MS, sample

from coldstep._util.figures import duration, numbers, percent
from coldstep.model import (
    Answer,
    Cache,
    Change,
    CollectorRow,
    Dropped,
    Finding,
    FirstStep,
    InferredBy,
    Location,
    Memory,
    Profiled,
    Remedy,
    Settling,
    SettlingCause,
    Trace,
)
from coldstep.vocabulary import OURS
from coldstep_viewers.report.headline import clauses, headline
from coldstep_viewers.report.html import page
from coldstep_viewers.report.ledger import EAGER, until_settled
from coldstep_viewers.report.terminal import render
from coldstep_viewers.safe_text import plain


def section(text: str, title: str) -> str:
    """The lines of the section whose title begins so."""
    sections = {block.partition("\n")[0]: block for block in re.split(r"\n\n(?=\S)", text)}
    (found,) = (block for name, block in sections.items() if name.startswith(title))
    return found


def joined(text: str) -> str:
    """`text` with its line breaks undone."""
    return re.sub(r"\s+", " ", text)


# --- the headline -------------------------------------------------------------------------------------------------


def test_the_headline_has_a_clause_for_each_kind_of_step() -> None:
    assert headline(sample()) == (
        "jax: first step 3.2 s, 82 % XLA compilation; first settled at step 1; 1 recompile at step 7"
        " | torch: first step 30.1 s, 56 % C++ compilation; first settled at step 1; 1 recompile at step 7"
    )


def test_one_kind_of_step_with_the_default_name_is_not_named() -> None:
    trace = only_jax(sample())
    for row in [*trace.intervals, *trace.cost, *trace.settling]:
        if row.name == "jax":
            row.name = "step"
    assert headline(trace) == "first step 3.2 s, 82 % XLA compilation; first settled at step 1; 1 recompile at step 7"


def test_the_headline_tells_what_did_not_end_well() -> None:
    trace = only_jax(sample())
    trace.settling[0].verdict, trace.settling[0].settled_at_step = "not_settled", None
    trace.run.ended, trace.run.error = "exception", "ValueError: no more data"
    assert "; not settled in 8 steps; " in headline(trace)
    assert headline(trace).endswith("; ended: ValueError: no more data")
    trace.run.ended, trace.run.error = "exit", "SystemExit: 3"
    assert headline(trace).endswith("; ended: sys.exit(3)")


def test_the_report_names_no_page_that_an_installation_lacks() -> None:
    assert "docs/" not in render(sample())


def test_what_settled_because_it_was_given_up_is_told_in_the_headline() -> None:
    trace = sample()
    jax, torch = clauses(trace)
    assert "; first settled at step 1; 1 recompile at step 7" in jax
    trace.compiles[3].outcome = "limit"
    trace.recompiles = []
    jax, torch = clauses(trace)
    assert "; settled at step 1" in jax
    assert torch.endswith("; settled at step 1; gave up compiling GPT.forward in step 7")


def test_many_kinds_of_steps_are_cut_in_the_headline_and_a_long_name_too() -> None:
    trace = many_kinds(sample(), 12)
    text = headline(trace)
    assert re.findall(r"(?:^| \| )(\S+):", text) == ["kind0", "kind1", "kind2", "kind3"]
    assert text.endswith(" | and 8 more kinds of steps")
    rename(trace, "kind0", "x" * 100_000 + " at train.py:30 (2)")
    assert f"{'x' * 15}…{'x' * 5} at train.py:30 (2): first step" in headline(trace), "it is known by its end"
    assert len(headline(trace)) < 500


def test_a_name_may_hold_what_the_headline_is_joined_with() -> None:
    trace = sample()
    rename(trace, "jax", "a | b\nc")
    first, second = render(trace).splitlines()[:2]
    assert first.startswith("a | b c: first step 3.2 s")
    assert second.startswith("torch: first step")


def test_too_few_steps_are_said_in_few_words() -> None:
    trace = only_jax(sample())
    trace.settling[0].verdict, trace.settling[0].settled_at_step = "too_few_steps", None
    assert "; too few steps to judge; " in headline(trace)


def test_a_run_without_steps_has_a_headline_too() -> None:
    trace = without_steps(sample())
    assert headline(trace).startswith("no steps marked; ")
    assert "25 compiles" in headline(trace)


def test_a_run_without_steps_names_the_one_program_that_it_compiled() -> None:
    trace = without_steps(sample())
    trace.compiles = [replace(trace.compiles[0], function="only_one")]
    text = section(render(trace, every=True), "Where the time went")
    assert re.search(r"\d m?s .* only_one$", text, re.MULTILINE)


# --- where the time went ------------------------------------------------------------------------------------------


def test_the_stretches_add_up_to_the_time_to_settled() -> None:
    trace = sample()
    settled, stretches = until_settled(trace, 0)
    assert settled
    spent = sum(stretch.wall_ns for stretch in stretches) + trace.processes[0].before_trace_ns
    assert spent == max(row.time_to_settled_ns or 0 for row in trace.cost)
    for stretch in stretches:
        assert sum(stretch.shares.values()) == stretch.wall_ns, stretch.title
    assert [stretch.title for stretch in stretches] == [
        "before the first step",
        "jax step 0",
        "jax steps 1-7 and between",
        "torch step 0",
        "between steps",
    ]


def test_until_the_end_of_the_run_where_something_did_not_settle() -> None:
    trace = sample()
    trace.settling[1].verdict, trace.settling[1].settled_at_step = "not_settled", None
    settled, stretches = until_settled(trace, 0)
    assert not settled
    assert sum(stretch.wall_ns for stretch in stretches) == trace.run.wall_ns
    assert "to the end of the run" in render(trace)


def test_eager_programs_are_one_line_with_cost_and_remedy() -> None:
    stretch = until_settled(sample(), 0)[1][0]
    assert stretch.eager_count == 21
    assert stretch.shares[EAGER] == 21 * 105 * MS
    assert stretch.shares["xla.compile"] == (1900 - 21 * 80) * MS
    (line,) = (line for line in render(sample(), 120, every=True).splitlines() if "eager" in line)
    assert re.search(r"21 eager programs\s+2\.2 s\s+30 %\s+█.*wrap the initialisation in one jax\.jit", line)
    text = section(render(sample(), 120, every=True), "Where the time went")
    assert re.search(r"XLA compilation, the rest\s+220 ms", text)
    assert set(re.findall(r"(\w+ \w+), the rest", text)) <= {"XLA compilation", "JAX tracing", "JAX lowering"}


def test_the_remedy_for_eager_programs_is_said_of_the_beginning_only() -> None:
    trace = sample()
    for row in trace.compiles:
        if row.origin == "eager":
            row.segments[0].interval = 15
        row.caller = Location("data.py", 25, "batches") if row.origin == "eager" else row.caller
    text = section(render(trace, 120), "Where the time went")
    assert re.search(r"21 eager programs .*data\.py:25 2\.2 s", text), "which line runs them"
    assert "jax.jit" not in text


def test_many_compiles_are_counted_and_the_longest_named() -> None:
    trace = sample()
    first = next(row for row in trace.compiles if row.function == "train_step")
    assert "2 compiles" not in section(render(trace, 120, every=True), "Where the time went")
    [segment] = first.segments
    here = segment.wall_ns + 1_000 * MS
    later = replace(segment, interval=trace.recompiles[-1].interval, wall_ns=40_000 * MS)  # is told where it was paid
    other = replace(
        first,
        id="c99",
        function="evaluate",
        key="jax:train.py:evaluate",
        wall_ns=here + later.wall_ns,
        segments=[replace(segment, wall_ns=here), later],
    )
    trace.compiles.append(other)
    text = section(render(trace, 120, every=True), "Where the time went")
    assert re.search(rf"XLA compilation .*2 compiles, the longest evaluate, {duration(here)}", text)
    other.function, other.key = first.function, first.key
    text = section(render(trace, 120, every=True), "Where the time went")
    assert re.search(r"XLA compilation .*2 compiles of train_step", text)


def test_attempts_within_a_compile_are_not_counted_twice() -> None:
    trace = sample()
    first = next(row for row in trace.compiles if row.function == "GPT.forward")
    [segment] = first.segments
    attempt = replace(segment, part="attempt", wall_ns=segment.wall_ns // 2)
    trace.compiles.append(replace(first, id="c99", function="loss", key="dynamo:x", segments=[segment, attempt]))
    text = section(render(trace, 120), "Where the time went")
    assert re.search(rf"2 compiles, the longest \S+, {duration(segment.wall_ns)}", text)


def test_the_rest_of_the_run_is_in_a_line() -> None:
    trace = sample()
    gap = next(row for row in reversed(trace.intervals) if row.kind == "between")
    moved = 4_900 * MS
    gap.wall_ns, gap.unattributed_ns = gap.wall_ns + moved, gap.unattributed_ns + moved
    for row in trace.intervals[gap.index + 1 :]:
        row.start_ns += moved
    trace.run.wall_ns += moved
    trace.processes[0].wall_ns += moved
    text = " ".join(render(trace).split())
    assert f"{duration(trace.processes[0].before_trace_ns + trace.run.wall_ns)} in all" in text
    assert re.search(r"Then 32\.\d s to the end of the run: 7 steps 27\.\d s; 4\.9 s between and after them, ", text)
    assert "the longest 4.9 s before torch step 7; 1 compile of GPT.forward there, 20.0 s." in text
    assert "the longest 4.9 s before torch step 7; 1 compile of GPT.forward there, 20.0 s." in page(trace)


def test_eager_programs_never_take_more_than_an_interval_has() -> None:
    trace = sample()
    for row in trace.compiles:
        if row.origin == "eager":
            row.segments[0].phases = {"xla.compile": 10_000 * MS}
    stretch = until_settled(trace, 0)[1][0]
    assert sum(stretch.shares.values()) == stretch.wall_ns
    assert min(stretch.shares.values()) > 0


def test_time_to_settled_is_shown_from_the_start_of_the_process() -> None:
    text = section(render(sample()), "Where the time went")
    assert text.startswith(
        "Where the time went, from the start of the process until every kind of step had settled: 46.2 s\n"
    )
    assert re.search(r"before the trace\s+420 ms\s+1 %", text)
    assert re.search(r"imports\s+4\.4 s\s+60 %\s+█+.*torch 2\.9 s, 3 more 1\.5 s", text)
    assert re.search(r"JAX backend start\s+210 ms", text)
    assert re.search(r"torch step 0\s+30\.1 s\s+65 %", text)
    assert re.search(r"C\+\+ compilation\s+16\.8 s\s+56 %\s+█", text)
    assert text.count("unattributed") == 4


# --- steps --------------------------------------------------------------------------------------------------------


def test_first_second_recompiled_and_steady_steps() -> None:
    text = section(render(sample()), "Steps")
    assert re.search(r"step 0\s+first\s+3\.2 s\s+█+▓+", text)
    assert re.search(r"step 1\s+steady\s+11\.0 ms\s+█+·", text)
    assert re.search(r"step 7\s+recompiled\s+3\.0 s", text)
    assert re.search(r"5 steps\s+steady\s+13\.5 ms ± 3\.2 ms", text)


def test_execution_inside_the_call_is_not_observed_rather_than_zero() -> None:
    jax, torch = section(render(sample()), "Steps").split("\n\n")
    assert "execution not observed (torch runs CPU kernels inside the call)" in joined(torch)
    assert "not observed" not in jax
    assert "execution 0" not in torch


def test_the_moment_that_wait_takes_is_not_taken_for_execution() -> None:
    trace = sample()
    for row in trace.intervals:
        if row.name == "torch" and row.label == "steady":
            row.phases, row.unattributed_ns = {"execute": 40_000}, row.wall_ns - 40_000
    _, torch = section(render(trace), "Steps").split("\n\n")
    assert "execution not observed (torch runs CPU kernels inside the call)" in joined(torch)
    for compile_ in trace.compiles:
        compile_.inputs[0].type = "i64[8,32] @cuda:0"
    assert "not observed" not in section(render(trace), "Steps")


def test_execution_that_was_recorded_in_some_steps_is_shown_of_those() -> None:
    trace = sample()
    steady = [row for row in trace.intervals if row.name == "torch" and row.label == "steady"]
    for row in steady:
        row.phases, row.unattributed_ns = {"execute": 40_000}, row.wall_ns - 40_000
    steady[0].phases, steady[0].unattributed_ns = {"execute": steady[0].wall_ns}, 0
    text = joined(section(render(trace), "Steps").split("\n\n")[1])
    rest = len(steady) - 1
    assert "execution 100 %; execution not observed " in text
    assert f"not observed in {rest} of them (torch runs CPU kernels inside the call)" in text


def test_the_execution_of_eager_operations_is_of_the_steps_that_a_profiler_saw() -> None:
    trace = sample()
    steady = [row for row in trace.intervals if row.name == "torch" and row.label == "steady"]
    for row in steady:
        row.phases, row.unattributed_ns = {"execute": 40_000}, row.wall_ns - 40_000
    trace.compiles = [row for row in trace.compiles if row.stack == "jax"]
    trace.recompiles = []
    assert "not observed" not in section(render(trace), "Steps"), "nothing says what ran"
    trace.device_traces[0, "kineto"] = Profiled(100, 0, 400)
    torch = joined(section(render(trace), "Steps").split("\n\n")[1])
    assert "execution not observed (torch runs CPU kernels inside the call; the profiler that sees them ended" in torch


def test_calls_that_were_inferred_are_no_steps() -> None:
    trace = sample()
    for row in trace.intervals:
        if row.name == "jax":
            row.inferred_by = InferredBy("call", "loss", None)
    for each in (*trace.intervals, *trace.cost, *trace.settling):
        each.name = "call of loss" if each.name == "jax" else each.name
    text = section(render(trace, 120), "Where the time went")
    assert "  call 0 of loss " in text
    assert "call of loss" not in text


def test_steps_that_get_faster_after_the_last_compile_are_told() -> None:
    trace = sample()
    assert "as fast as the steady ones from" not in render(trace)
    trace.settling[1].warm_at_step = 4
    assert "torch: 8 steps, first settled at step 1, as fast as the steady ones from step 4 on" in render(trace, 120)


def test_dispatch_is_said_to_be_one() -> None:
    trace = only_jax(sample())
    for row in trace.intervals:
        if row.kind == "step":
            row.measures, row.phases, row.unattributed_ns = "dispatch", {}, row.wall_ns
    assert "Not observed" not in render(trace), "only the analysis knows where it matters"
    trace.findings = [finding("dispatch_timed", "jax: 8 steps end when their work is handed over", 1, "Wait for it.")]
    text = render(trace)
    assert "execution not observed (no coldstep.wait in the step)" in joined(section(text, "Steps"))
    assert "- jax: 8 steps end when their work is handed over. Wait for it." in section(text, "Not observed")
    assert "What else" not in text


def test_execution_that_is_seen_in_part_was_not_waited_for() -> None:
    trace = only_jax(sample())
    trace.findings = [finding("dispatch_timed", "jax: 8 steps end when their work is handed over", 1, "Wait for it.")]
    text = joined(section(render(trace), "Steps"))
    assert "execution 93 %" in text
    assert "execution not waited for (no coldstep.wait in the step)" in text
    assert "execution not observed" not in text


def test_steps_that_run_nothing_compiled_have_no_execution_to_observe() -> None:
    trace = only_jax(sample())
    trace.compiles = []
    for row in trace.intervals:
        if row.kind == "step":
            row.measures, row.phases, row.unattributed_ns = "dispatch", {}, row.wall_ns
    assert "not observed" not in render(trace)


def test_disk_caches_of_the_first_step_are_told_where_they_are_on() -> None:
    trace = sample()
    assert "cache" not in section(render(trace), "Steps").replace("Inductor cache", "")
    trace.intervals[1].compiles, trace.intervals[17].compiles = ["c0", "c4", "c5"], ["c2"]
    states = {"c0": ("hit", 58_000 * MS), "c4": ("miss", None), "c5": ("hit", None), "c1": ("miss", None)}
    for row in trace.compiles:
        if row.id in states:
            row.caches = [Cache("xla.persistent", *states[row.id])]
    trace.compiles[2].caches = [Cache("inductor.fx_graph", "bypass", None), Cache("aot.autograd", "off", None)]
    jax, torch = section(render(trace), "Steps").split("\n\n")
    assert "disk caches in step 0: persistent XLA cache 2 hits (saved 58.0 s), 1 miss\n" in jax
    assert "disk caches" not in torch


def test_the_report_is_usable_with_many_kinds_of_steps_and_with_a_long_name() -> None:
    trace = many_kinds(sample(), 12)
    text = render(trace)
    assert len(re.findall(r"(?m)^  kind\d+: 1 step, too few steps to judge", text)) == 12
    assert "more kinds" not in section(text, "Steps")
    rename(trace, "kind0", "x" * 100_000)
    text = render(trace)
    assert max(map(len, text.splitlines())) <= 100
    assert f"\n  {'x' * 15}…{'x' * 24}: 1 step" in text
    assert re.search(rf"\n  {'x' * 15}…{'x' * 24} step 0 +1\.0 s +\d+ %", text), (
        "a long name must not push out the figures"
    )
    assert len(text) < 10_000
    many = section(render(many_kinds(sample(), 300)), "Steps")
    assert "and 280 more kinds of steps; --format json has them." in many


def test_too_few_steady_steps_have_no_median() -> None:
    trace = only_jax(sample())
    trace.cost[0].steady_step_ns = trace.cost[0].steady_spread_ns = None
    assert re.search(r"5 steps\s+steady\s+too few", render(trace))
    for row in trace.intervals:
        if row.label == "steady":
            row.label = "settling"
    assert re.search(r"none\s+steady\s+not seen", render(trace, every=True))


def test_marks_are_explained_where_there_are_none() -> None:
    assert "with coldstep.step():" in section(render(without_steps(sample())), "Steps")


# --- recompiles, graph breaks, the rest ---------------------------------------------------------------------------


def test_a_recompile_says_what_where_why_and_what_it_cost() -> None:
    text = section(render(sample()), "Recompiles (2)")
    costliest, first = text.split("\n\n")
    assert "train_step  step 7 of jax, cost 3.0 s, variant 2" in first
    assert "defined   examples/demo.py:41 in train_step" in first
    assert "called    examples/demo.py:88 in main" in first
    assert "loss = train_step(params, batch)" in first
    assert "shape of batch['tokens']: i32[8,32] → i32[5,32]" in first
    assert "advice    Keep the shape" in first
    assert "variant 2 of 8 allowed" in costliest


@pytest.mark.parametrize(("how", "what"), [("root", "Python starting"), ("subprocess", "Python, imports, your code")])
def test_what_a_process_did_before_it_was_watched_is_its_own(how: str, what: str) -> None:
    trace = sample()
    trace.run.command, trace.processes[0].how = ["coldstep", "run", "train.py"], how
    assert f"  {what}" in render(trace)


def test_a_variant_is_not_the_first_where_that_was_made_before_the_trace() -> None:
    trace = sample()
    of_jax, of_torch = trace.compiles[1], trace.compiles[3]
    trace.compiles = [row for row in trace.compiles if row.id not in ("c0", "c2")]
    for row in of_jax, of_torch:
        row.variant.n, row.memory = 1, Memory(MS, MS, MS)
    trace.details[of_torch.id].room = 5
    text = render(trace, every=True)
    assert re.findall(r"(?m)^  (\S+)  step 7 .*, variant (.*)$", text) == [
        ("GPT.forward", "3 of 8 allowed"), ("train_step", "2 or later"),
    ]  # fmt: skip
    assert re.findall(r"the program of (.*):", text) == ["train_step, variant 2 or later", "GPT.forward, variant 3"]
    assert '"3 of 8 allowed"' in page(trace)
    of_torch.outcome = "limit"
    assert "of 8 allowed" not in page(trace)


def test_programs_of_one_function_are_told_apart() -> None:
    trace = sample()
    for row in trace.compiles:
        trace.details[row.id].identity = row.key
    del trace.compiles[3], trace.recompiles[1]
    for megabytes, row in zip((1, 3, 2), trace.compiles, strict=False):
        row.memory = Memory(megabytes << 20)
    assert re.findall(r"the program of (.*): arguments (.)", render(trace, every=True)) == [
        ("train_step, variant 2", "3"), ("GPT.forward", "2"), ("train_step, variant 1", "1"),
    ]  # fmt: skip


def test_changes_are_told_once() -> None:
    trace = sample()
    row = trace.recompiles[0]
    row.before, row.after = "f32[8]", "i32[5]"
    row.changes = [
        Change(row.argument, "shape", "f32[8]", "i32[5]"),
        Change(row.argument, "dtype", "f32[8]", "i32[5]"),
        Change("mask", "dtype", "bool[8]", "i32[5]"),
        Change("mask", "shape", "bool[8]", "i32[5]"),
        Change(None, "grad_mode", "on", "off"),
    ]
    first = section(render(trace), "Recompiles (2)").split("\n\n")[1] + "\n"
    assert "cause     shape and dtype of batch['tokens']: f32[8] → i32[5]\n" in first
    assert "also      dtype and shape of mask: bool[8] → i32[5]\n" in first
    assert "also      grad_mode: on → off\n" in first
    row.cause, row.argument, row.before, row.after = "unknown", None, None, None
    row.evidence = ["batch['tokens']: f32[8] → i32[5]", "mask: bool[8] → i32[5]", "grad_mode: on → off"]
    first = section(render(trace), "Recompiles (2)").split("\n\n")[1] + "\n"
    assert first.count("on → off") == first.count("bool[8]") == 1
    assert "also" not in first


def test_an_unknown_cause_is_called_that_and_shows_its_evidence() -> None:
    trace = sample()
    row = trace.recompiles[0]
    row.cause, row.argument, row.before, row.after = "unknown", None, None, None
    row.changes, row.evidence, row.confidence, row.advice = [], ["0/0: ___check_global_state()"], "inferred", ""
    first = section(render(trace), "Recompiles (2)").split("\n\n")[1] + "\n"
    assert "cause     not known\n" in first
    assert "evidence  0/0: ___check_global_state()" in first
    assert "advice" not in first


def test_what_recompiles_again_and_again_is_one_block() -> None:
    trace = sample()
    row, other = trace.recompiles
    trace.recompiles = [other, *(replace(row, id=f"again{n}", step=n) for n in (3, 4, 6))]
    values = "tokens was i32[8] → i32[7] → i32[6] → i32[5]"
    trace.findings = [
        Finding(
            "f0", 0, "repeat_offender", "warning", 9, 6, 40_000 * MS, None, f"train_step recompiled 3 times: {values}",
            [f"shape, 3 times, 40 s: {values}"], "Pad them.", ["again3", "again4", "again6"],
        )
    ]  # fmt: skip
    text = render(trace)
    costliest, second = section(text, "Recompiles (4)").split("\n\n")
    assert "train_step  3 times in steps 3, 4 and 6, cost 40.0 s" in costliest
    assert f"cause    shape, 3 times, 40 s: {values}\n" in costliest
    assert "advice   Pad them." in costliest
    assert "GPT.forward" in second
    assert text.count(values) == 1


def test_a_run_without_steps_does_not_speak_of_a_first_one() -> None:
    trace = sample()
    trace.intervals = trace.intervals[:1]
    trace.intervals[0].compiles = []
    trace.settling, trace.cost, trace.compiles, trace.graph_breaks, trace.findings = [], [], [], [], []
    trace.recompiles = [replace(trace.recompiles[0], interval=0, step=None)]
    text = render(trace)
    assert "in no step, cost 3.0 s" in text
    assert "before the first step" not in text


def test_many_recompiles_of_one_cause_share_a_line_with_their_range() -> None:
    trace = sample()
    trace.recompiles = [replace(trace.recompiles[0], id=f"r{n}", cost_ns=n * MS) for n in range(1, 101)]
    trace.recompiles += [replace(trace.recompiles[0], id="r0", cost_ns=MS, cause="dtype")]
    text = section(render(trace), "Recompiles (101)")
    assert text.count("cause     shape") == text.count("cause     dtype") == 1
    assert "cost 100 ms" in text
    assert "and 99 like it: train_step in step 7" in text
    summed = "100 recompiles of 1 function in step 7, 1.0 ms to 100 ms, median 50.5 ms ± 49.5 ms, 5.0 s in all"
    assert summed in " ".join(text.split())
    assert render(trace).split("\n")[-2].endswith("--all has each by itself.")
    assert section(render(trace, every=True), "Recompiles (101)").count("cause     shape") == 100


def test_a_report_of_hundreds_of_recompiles_breaks_and_findings_is_two_screens() -> None:
    trace = sample()
    steps = [row for row in trace.intervals if row.name == "jax" and row.step]
    for row in steps:
        row.label = "recompiled"
    trace.recompiles = [replace(trace.recompiles[0], id=f"r{n}", cost_ns=n * MS) for n in range(380)]
    first = replace(trace.graph_breaks[0], hints=[])
    trace.graph_breaks = [replace(first, id=f"b{n}", location=Location("a.py", n, "f")) for n in range(60)]
    other = Finding("", 0, "fast_path_miss", "note", 1, 0, 5, None, "", ["seen"], "wait", [])
    trace.findings = [replace(other, id=f"f{n}", text=f"the {n}th") for n in range(40)]
    settling = next(row for row in trace.settling if row.name == "jax")
    settling.causes = [SettlingCause(n, "c0", "shape", f"the {n}th cause", [], "") for n in range(1, 200)]
    text = render(trace)
    assert len(text.split("\n")) < 130
    assert "and 59 like it: a.py:1, a.py:2, a.py:3 and 56 more" in text
    assert "and 39 like it" in text
    assert "the 1th cause; and 198 like it in steps 2-199" in text
    line = next(line for line in text.split("\n") if " recompiled " in line and "steps," in line)
    assert line.split()[:2] == [str(len([row for row in steps if (row.step or 0) > 1])), "steps,"]
    everything = render(trace, every=True)
    for what in ("the 199th cause", "the 39th", "a.py:59", *(f"step {row.step} " for row in steps)):
        assert what in everything


def test_what_is_alone_of_its_kind_is_shown_whole_beside_what_is_alike() -> None:
    trace = sample()
    alike = [replace(trace.recompiles[0], id=f"r{n}", cost_ns=n * MS) for n in range(1, 9)]
    kinds = ("dtype", "sharding", "device", "closure", "global", "keyword")
    trace.recompiles = [*alike, *(replace(alike[0], id=cause, cost_ns=1, cause=cause) for cause in kinds)]
    text = section(render(trace), "Recompiles (14)")
    assert "of another kind" not in text
    for cause in ("shape", *kinds):
        assert text.count(f"cause     {cause}") == 1


def test_breaks_of_one_line_that_many_functions_reach_are_one() -> None:
    trace = sample()
    first = replace(trace.graph_breaks[0], count=2, cost_ns=100 * MS)
    trace.graph_breaks = [replace(first, id=f"b{n}", function=f"stage_{n}") for n in range(40)]
    text = " ".join(section(render(trace), "Graph breaks (40, at 1 place)").split())
    assert "in stage_0, stage_1, stage_2 and 37 more, 80 times" in text
    assert "caused 40 compiles, cost 4.0 s" in text
    assert "like it" not in text
    assert section(render(trace, every=True), "Graph breaks (40)").count("2 times") == 40


def test_what_is_a_cost_of_a_break_and_of_a_recompile_is_said_to_be() -> None:
    trace = sample()
    [again] = [row for row in trace.recompiles if row.compile in trace.graph_breaks[0].compiles]
    again.cost_ns = trace.graph_breaks[0].cost_ns
    text = " ".join(section(render(trace), "Graph breaks (1)").split())
    assert "Do not add up what recompiles and graph breaks cost: 1.2 s, of 1 recompile, is counted in both." in text
    trace.graph_breaks[0].compiles = []
    assert "Do not add up" not in render(trace)


def test_a_graph_break_says_what_where_and_how_often() -> None:
    text = section(render(sample()), "Graph breaks (1)")
    assert "data dependent  in train_step, 2 times, first seen: step 0 of torch, caused 1 compile, cost 1.2 s" in text
    assert "examples/demo.py:57 in train_step" in text
    assert "if loss > 3:" in text
    assert "hint    Use `torch.cond`" in section(render(sample(), every=True), "Graph breaks (1)")
    assert "hint" not in text, "there is advice"


def test_a_clean_run_has_no_empty_sections() -> None:
    trace = sample()
    trace.recompiles, trace.graph_breaks = [], []
    text = render(trace)
    for absent in ("Recompiles", "Graph breaks", "What ended", "What was not", "What else"):
        assert absent not in text


def test_a_killed_run_says_what_was_compiling_and_for_how_long() -> None:
    trace = sample()
    trace.run.ended = "killed"
    trace.intervals.pop()
    trace.compiles[3].outcome = "in_progress"
    text = render(trace)
    assert "killed" in section(text, "What ended the run")
    assert "still compiling: GPT.forward (examples/demo.py:41), 20.0 s at the last heartbeat" in text
    assert "what came after the last write" in section(text, "Not observed")


def test_a_step_that_was_cut_off_is_told_as_unfinished() -> None:
    trace = sample()
    trace.run.ended = "killed"
    trace.intervals.pop()
    trace.intervals[-1].label, trace.unfinished = None, 32 - 1
    trace.settling[1].verdict, trace.settling[1].settled_at_step = "not_settled", None
    text = render(trace)
    assert "not settled in 7 steps" in headline(trace)
    assert re.search(r"step 7\s+not finished\s+at least 27\.5 s\s+█", section(text, "Steps"))
    assert "killed in step 7 of torch, not finished after at least 27.5 s" in section(text, "What ended the run")


def test_a_first_step_that_was_cut_off_is_told_too() -> None:
    trace = sample()
    trace.run.ended = "killed"
    trace.intervals = trace.intervals[:18]
    trace.intervals[17].label, trace.unfinished = None, 17
    trace.cost.pop(), trace.settling.pop(), trace.recompiles.pop()
    assert " | torch: first step not finished, at least 30.1 s | ended: killed" in headline(trace)
    text = render(trace)
    assert "to the end of the run: " in text
    steps = section(text, "Steps")
    assert "torch: the first step did not finish\n" in steps
    assert re.search(r"step 0\s+not finished\s+at least 30\.1 s", steps)
    trace.cost.clear(), trace.settling.clear(), trace.recompiles.clear()
    assert headline(trace) == "torch: first step not finished, at least 30.1 s; ended: killed"
    assert "No step was marked" not in render(trace)


def test_what_was_not_observed_is_named() -> None:
    trace = sample()
    trace.collectors = [
        CollectorRow(0, "jax", "failed", None, None, ["RuntimeError: no such hook"]),
        CollectorRow(0, "dynamo", "late", 1_500 * MS, None, ["compiles before it attached"]),
        CollectorRow(0, "inductor", "partial", 0, None, ["cache states"]),
        CollectorRow(0, "imports", "attached", 0, None, []),
        CollectorRow(0, "torch_xla", "absent", None, None, []),
        CollectorRow(0, "xspace", "absent", None, None, []),
        CollectorRow(0, "kineto", "absent", None, None, []),
        CollectorRow(0, "dynamo", "absent", None, None, []),
    ]
    trace.run.dropped = Dropped(ledger=2, bulk=30)
    trace.run.notes = ["A second trace joined."]
    text = joined(section(render(trace), "Not observed"))
    assert "- jax failed: RuntimeError: no such hook" in text
    assert "- dynamo late, since 1.5 s: compiles before it attached" in text
    assert "- inductor partial: cache states" in text
    assert "2 events of the ledger lost" in text
    assert "30 samples dropped" in text
    assert "- A second trace joined." in text
    assert "never imported: torch_xla." in f"{text}."
    trace.processes[0].versions = {}
    assert "never imported: torch_xla, jax and torch" in joined(section(render(trace), "Not observed"))
    assert "imports" not in text


def test_findings_told_nowhere_else_are_shown() -> None:
    trace = sample()
    trace.findings = [
        finding("failed_compile", "forward failed to compile", 17),
        finding("recompile", "a twin", 17),
        replace(finding("eager_compiles", "21 small programs", 0), severity="note"),
        replace(finding("eager_compiles", "21 more of them", 1), severity="note"),
        finding("eager_compiles", "3 later steps compiled eager operations", 5, "Move them.", 1_000 * MS),
    ]
    text = render(trace)
    found = section(text, "What else was found")
    assert "error: forward failed to compile\n" in found
    assert "error: 3 later steps compiled eager operations, cost 1.0 s\n" in found
    assert "advice  Move them." in found
    for elsewhere in ("a twin", "21 small programs", "21 more"):
        assert elsewhere not in text


# --- form ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    lines = render(sample(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line != line.rstrip() for line in lines)
    assert not any("…" in line for line in lines), "nothing may be cut"


def test_colour_only_where_asked() -> None:
    assert "\x1b" not in render(sample())
    assert "\x1b[" in render(sample(), colour=True)


@pytest.mark.parametrize("colour", [False, True])
def test_a_hostile_trace_cannot_act_on_the_terminal(colour: bool) -> None:
    evil = "\x1b]0;owned\x07[bold red]x[/bold red]\u202e\r:skull:\ud800"
    trace = sample()
    trace.run.command, trace.run.ended, trace.run.error = [evil], "exception", evil
    trace.run.notes = [evil]
    for compile_ in trace.compiles[:4]:
        compile_.function = evil
        assert compile_.location
        compile_.location = replace(compile_.location, file=evil, function=evil)
        trace.code[evil, compile_.location.line] = evil
    for row in trace.recompiles:
        row.argument, row.before, row.after, row.evidence, row.advice = evil, evil, evil, [evil], evil
    for found in trace.graph_breaks:
        found.reason, found.function, found.hints, found.kind = evil, evil, [evil], evil
    for step in [*trace.intervals, *trace.cost, *trace.settling]:
        step.name = evil if step.name == "jax" else step.name
    trace.intervals[1].phases[evil] = trace.intervals[1].phases.pop("execute")
    text = render(trace, 200, colour)
    text.encode()
    left = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", left)
    assert "\\x1b]0;owned\\x07[bold red]x[/bold red]\\u202e\\r:skull:\\ud800" in left
    assert "\x1b" not in headline(trace)


@given(st.text())
def test_plain_text_has_nothing_to_act_on(text: str) -> None:
    shown = plain(text)
    shown.encode()
    assert all(character.isprintable() or character in "\n\u2028\u2029" or character.isspace() for character in shown)
    assert plain(shown) == shown


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (95, "95 ns"),
        (1_000, "1.0 µs"),
        (180_000, "180 µs"),
        (999_960, "1.0 ms"),
        (3_200_000, "3.2 ms"),
        (99_960_000, "100 ms"),
        (21_400_000_000, "21.4 s"),
        (119_400_000_000, "119 s"),
        (119_960_000_000, "2 min 0 s"),
        (134_000_000_000, "2 min 14 s"),
        (3_599_600_000_000, "1 h 0 min"),
        (3_780_000_000_000, "1 h 3 min"),
        (-5_000_000, "-5.0 ms"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_shares_and_ordinals() -> None:
    assert [percent(share) for share in (0, 0.001, 0.71, 0.9999, 1)] == ["0 %", "<1 %", "71 %", "99 %", "100 %"]
    assert [numbers(row) for row in ([7], [4, 7], [1, 2, 3], [1, 4, 7], range(0, 90, 10))] == [
        "7",
        "4 and 7",
        "1-3",
        "1, 4 and 7",
        "0, 10, 20 … 80",
    ]
    assert OURS.phase("inductor.cpp") == "C++ compilation"
    assert OURS.phase("import.torch") == "import of torch"
    assert OURS.phase("some.new_phase") == "some.new_phase"


# --- other traces made of the sample ------------------------------------------------------------------------------


def test_many_dispatch_findings_are_cut() -> None:
    trace = sample()
    trace.findings = [finding("dispatch_timed", f"kind{n}: 1 step ends early", 1) for n in range(9)]
    text = section(render(trace), "Not observed")
    assert text.count("ends early") == 3
    assert "the same of 6 more kinds of steps" in text


def finding(kind: str, text: str, interval: int, advice: str = "", cost_ns: int = 0) -> Finding:
    step = sample().intervals[interval].step
    return Finding("f0", 0, kind, "error", interval, step, cost_ns, None, text, [], advice, [])


def rename(trace: Trace, old: str, new: str) -> None:
    for row in [*trace.intervals, *trace.cost, *trace.settling]:
        row.name = new if row.name == old else row.name


def many_kinds(trace: Trace, count: int) -> Trace:
    """`count` kinds of steps, each with one step of a second."""
    first = trace.intervals[1]
    trace.intervals = [
        replace(first, index=n, name=f"kind{n}", start_ns=n * 1_000 * MS, wall_ns=1_000 * MS, phases={},
                unattributed_ns=1_000 * MS)
        for n in range(count)
    ]  # fmt: skip
    cost = trace.cost[0]
    trace.cost = [
        replace(cost, name=f"kind{n}", steady_step_ns=None, first_step=FirstStep(n, 1_000 * MS, 0.0, []))
        for n in range(count)
    ]
    trace.settling = [Settling(0, f"kind{n}", "step", "too_few_steps", None, None, []) for n in range(count)]
    trace.recompiles, trace.graph_breaks, trace.compiles = [], [], []
    return trace


def only_jax(trace: Trace) -> Trace:
    trace.intervals = trace.intervals[:16]
    trace.cost, trace.settling, trace.recompiles = trace.cost[:1], trace.settling[:1], trace.recompiles[:1]
    trace.compiles, trace.graph_breaks = trace.compiles[:2], []
    return trace


def without_steps(trace: Trace) -> Trace:
    trace.intervals = [replace(trace.intervals[0], wall_ns=trace.run.wall_ns)]
    trace.cost, trace.settling, trace.recompiles, trace.graph_breaks = [], [], [], []
    for row in trace.compiles:
        for segment in row.segments:
            segment.interval = 0
    return trace


def test_a_document_has_its_headline_and_whole_graphs_only_if_asked_for() -> None:
    from coldstep.model import Component
    from coldstep_viewers.report.json_rows import text

    trace = sample()
    parts = [Component("gm", "ab", "graph(): return x"), Component("flags", "cd", "-O3")]
    trace.compiles[0].caches = [Cache("inductor.fx_graph", "miss", None, components=parts)]

    def texts(ir: bool) -> list[str | None]:
        document = json.loads("".join(text(trace, ir=ir)))
        assert document["headline"] == headline(trace)
        return [part["text"] for part in document["compiles"][0]["caches"][0]["components"]]

    assert texts(ir=False) == [None, "-O3"]


def test_an_argument_that_only_the_function_could_name_is_named_as_its_caller_does() -> None:
    from coldstep.analysis.recompiles.rows import as_called
    from coldstep.model import Input

    trace = sample()
    row = next(each for each in trace.compiles if each.function == "GPT.forward")
    row.inputs = [Input("args[0]", "f32[8,3]"), Input("args[1]", "f32[3]")]
    row.caller = Location("train.py", 7, "main")
    trace.code["train.py", 7] = "loss = model(batch, mask)"
    assert as_called(trace, row, "args[0]") == "batch"
    assert as_called(trace, row, "args[1]") == "mask"


# --- what is folded -----------------------------------------------------------------------------------------------


def answered(trace: Trace) -> Trace:
    """The first recompile has an answer."""
    row = trace.recompiles[0]
    settling = next(each for each in trace.settling if each.name == "jax")
    settling.causes = [SettlingCause(7, row.compile, row.cause, "train_step compiled again in step 7", [], "")]
    trace.findings = [replace(finding("recompile", "train_step recompiled", 15), refs=[row.id])]
    trace.answers = [Answer("f0", row.cost_ns, True, "train_step recompiled", None, [])]
    return trace


def test_what_an_answer_says_is_not_said_again() -> None:
    text, whole = (render(answered(sample()), every=every) for every in (False, True))
    block = next(part for part in section(text, "Recompiles (2)").split("\n\n") if "train_step  step 7" in part)
    assert ", variant 2: shape of batch['tokens'], see 1 above" in joined(block)
    assert "cause" not in block
    assert "advice" not in block
    assert "evidence  batch['tokens']: i32[8,32] → i32[5,32]" in block, "what proves it stays"
    assert "compiled after step 0" not in text
    assert "train_step compiled again in step 7" in whole
    assert len(text.splitlines()) < len(whole.splitlines())


def test_a_short_stretch_is_a_line_that_has_its_unattributed_time() -> None:
    text, whole = (section(render(sample(), every=every), "Where the time went") for every in (False, True))
    assert re.search(r"jax step 0 +3\.2 s +7 % +XLA compilation 82 %, unattributed 1 %\n", text)
    assert text.count("unattributed") == whole.count("unattributed")


def test_phases_that_share_a_row_are_together_below_five_per_cent() -> None:
    for stretch in until_settled(sample(), 0)[1]:
        rows = list(stretch.rows(folded=True))
        assert sum(row.ns for row in rows) == stretch.wall_ns
        assert all(row.ns * 20 < stretch.wall_ns for row in rows if "smaller" in row.label)


def test_a_few_steps_share_a_line_only_where_they_took_about_as_long() -> None:
    trace = sample()
    steps = [row for row in trace.intervals if row.name == "jax" and row.step and 2 <= row.step <= 5]
    for row in steps:
        row.label = "settling"
    assert re.search(r"4 steps, 2-5 +settling ", section(render(trace), "Steps"))
    steps[2].wall_ns *= 9
    text = section(render(trace), "Steps")
    assert [f"step {row.step} " in text for row in steps] == [True] * 4, "the one that took long is seen"


def test_sections_of_one_line_stand_together() -> None:
    trace = sample()
    trace.memory.peak_rss_bytes, trace.run.notes = 300 << 20, ["A second trace joined."]
    trace.intervals[1].inside = {"xla.codegen": 40 * MS, "xla.pass.fusion": 2 * MS}
    lines = render(trace).splitlines()
    at = lines.index("Memory: 300 MiB resident at most")
    assert joined(" ".join(lines[at - 2 : at])).endswith(
        "Inside XLA and on the device, while it was recorded: code generation 40.0 ms, "
        "1 kind of pass 2.0 ms; threads work side by side"
    )


def test_a_trace_with_two_answers_of_one_cure_has_it_once() -> None:
    trace = answered(sample())
    trace.findings[0].remedies = [Remedy("x", "edit", "Pad it.", {}, "", "above", None, "nothing")]
    trace.findings.append(replace(trace.findings[0], id="f1", refs=[]))
    trace.answers.append(replace(trace.answers[0], finding="f1"))
    text = render(trace)
    assert text.count("Pad it.") == 1
    assert "The same as for 1." in text
    assert render(trace, every=True).count("Pad it.") == 2
