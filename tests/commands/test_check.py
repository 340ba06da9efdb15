"""`coldstep check`: a build fails when a budget is broken, and only then, and its log says what broke it."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import program
import pytest
import small_repository
import xmlschema
from click.testing import CliRunner, Result
from sample_trace import sample

import coldstep
from coldstep.analysis import budgets
from coldstep.analysis.across.run_diff import confidence_of_more
from coldstep.analysis.budgets import BudgetError, judge, parse
from coldstep.analysis.findings import findings
from coldstep.analysis.make_finding import of_compile
from coldstep.model import Dropped, Finding, Location, Trace
from coldstep_viewers.ci import formats as ci
from coldstep_viewers.commands import cli

Check = Callable[..., Result]


@pytest.fixture
def check(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """`coldstep check …` in the repository, with `env` as the only variables of CI."""
    monkeypatch.chdir(repository)
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)

    def check(*words: str | Path, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(cli.main, ["check", *map(str, words)], env=env, catch_exceptions=False)

    return check


def line_of(repository: Path, text: str) -> int:
    """The number of the script's line that holds `text`."""
    lines = (repository / "train.py").read_text().splitlines()
    [number] = [number for number, line in enumerate(lines, start=1) if text in line]
    return number


pytestmark = [pytest.mark.jax, pytest.mark.torch]


# --- a build: green, then a commit --------------------------------------------------------------------------------


def test_the_first_commit_is_within_the_budget_of_its_pyproject(check: Check) -> None:
    done = check("main.pftrace")
    assert done.exit_code == 0
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == "within budget: 0 recompiles, 0 allowed"
    assert "train_step: 1 compile, 1 allowed" in done.stdout
    assert "evaluation settled at step 1, allowed by step 1" in done.stdout


def test_what_compiles_after_it_has_settled_is_beside_the_limit_that_holds(check: Check) -> None:
    done = check("branch.pftrace", "--settle-by", "1")
    [line] = [each for each in done.stdout.splitlines() if "evaluation settled" in each]
    rest = "1 later step compiled, which --max-recompiles and --max-compiles limit"
    assert line.endswith(f"evaluation settled at step 1, allowed by step 1; {rest}")


def test_a_smaller_last_batch_fails_and_the_first_lines_say_all(check: Check, repository: Path) -> None:
    done = check("branch.pftrace", "--max-recompiles", "0")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "over budget: 2 recompiles, 0 allowed"
    head = "\n".join(lines[:10])
    for function, call in (("train_step", "loss = "), ("evaluate", "coldstep.wait(evaluate(")):
        if f"{function} recompiled" in head:  # the dearer one of the two
            of = " of evaluation" if function == "evaluate" else ""
            assert f"train.py:{line_of(repository, call)}: {function} recompiled in step 4{of} (shape)" in head
    assert "batch['x'] was f32[8,4], now f32[5,4]" in head
    assert "pad the last batch" in head
    assert "\x1b" not in done.stdout
    assert check("branch.pftrace", "--max-recompiles", "2", "--max-compiles", "2", "--forbid", "dtype").exit_code == 0


def test_the_annotations_point_at_the_users_lines(check: Check, repository: Path) -> None:
    summary = repository / "summary.md"
    env = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(repository), "GITHUB_STEP_SUMMARY": str(summary)}
    done = check("branch.pftrace", env=env)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0].startswith("over budget: ")
    annotations = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    places = {tuple(re.findall(r"file=([^,]+),line=(\d+)", line)[0]) for line in annotations}
    assert places == {
        ("train.py", str(line_of(repository, "loss = "))),
        ("train.py", str(line_of(repository, "coldstep.wait(evaluate("))),
    }
    assert all("batch['x'] was f32[8,4], now f32[5,4]%0A" in line for line in annotations)
    assert all(line.count("::") == 2 for line in annotations)
    assert "### coldstep: over budget" in summary.read_text()
    assert "f32\\[5,4\\]" in summary.read_text()


@pytest.mark.parametrize(("trace", "failures"), [("main.pftrace", 0), ("branch.pftrace", 1)])
def test_junit_is_valid(check: Check, repository: Path, trace: str, failures: int) -> None:
    done = check(trace, "--format", "junit")
    assert done.exit_code == (1 if failures else 0)
    schema = xmlschema.XMLSchema(str(Path(__file__).parents[1] / "junit.xsd"))
    schema.validate(done.stdout)
    suite = schema.to_dict(done.stdout)["testsuite"][0]
    assert suite["@tests"] == len(suite["testcase"])
    failed = [case for case in suite["testcase"] if "failure" in case]
    assert suite["@failures"] == len(failed)
    assert bool(failed) == bool(failures)
    if failed:
        [recompiles] = [case["failure"] for case in failed if case["@name"] == "max_recompiles"]
        assert recompiles["@message"] == "2 recompiles, 0 allowed"
        assert "batch['x'] was f32[8,4], now f32[5,4]" in recompiles["$"]


def test_json_has_every_check_and_its_findings(check: Check) -> None:
    done = check("branch.pftrace", "--format", "json")
    said = json.loads(done.stdout)
    assert (said["schema"], said["verdict"], said["exit_code"]) == ("coldstep-check/1", "over", 1)
    [recompiles] = [row for row in said["checks"] if row["limit"] == "max_recompiles"]
    assert (recompiles["found"], recompiles["allowed"], recompiles["verdict"]) == (2, 0, "over")
    assert {row["location"]["file"] for row in recompiles["findings"]} == {"train.py"}


def test_json_is_short_for_its_format(check: Check) -> None:
    assert check("main.pftrace", "--json").stdout == check("main.pftrace", "--format", "json").stdout
    assert check("main.pftrace", "--format", "text").stdout == check("main.pftrace").stdout


def test_files_are_written_beside_the_log(check: Check, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("check.xml", "check.json", "check.md", "check.txt")]
    done = check("branch.pftrace", *(word for file in files for word in ("-o", file)))
    assert done.exit_code == 1
    assert done.stdout.startswith("over budget: ")
    xml, data, summary, text = (file.read_text() for file in files)
    xmlschema.validate(xml, str(Path(__file__).parents[1] / "junit.xsd"))
    assert json.loads(data)["verdict"] == "over"
    assert summary.startswith("### coldstep: over budget")
    assert text == done.stdout


def test_the_same_run_gets_the_same_verdict_twenty_times(check: Check) -> None:
    for trace, code in (("main.pftrace", 0), ("branch.pftrace", 1)):
        done = [check(trace) for _ in range(20)]
        assert {result.exit_code for result in done} == {code}
        assert len({result.stdout for result in done}) == 1


def test_two_runs_of_one_program_get_one_verdict(check: Check, repository: Path) -> None:
    small_repository.run(repository, "again.pftrace")
    first, again = (json.loads(check(name, "--format", "json").stdout) for name in ("branch.pftrace", "again.pftrace"))
    rows = [[(row["limit"], row["subject"], row["found"], row["verdict"]) for row in said["checks"]]
            for said in (first, again)]  # fmt: skip
    assert rows[0] == rows[1]


# --- what is allowed ----------------------------------------------------------------------------------------------


def test_options_come_before_the_configuration(check: Check) -> None:
    assert check("branch.pftrace", "--max-recompiles", "2").stdout.splitlines()[0].startswith("over budget: ")
    words = ["--max-recompiles", "2", "--max-compiles", "2", "--forbid", "dtype", "--forbid", "dtype,layout"]
    assert check("branch.pftrace", *words).exit_code == 0


def test_limits_per_function_and_step(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Path("branch.pftrace").resolve()
    monkeypatch.chdir(tmp_path)
    done = check(trace, "--max-compiles", "1", "--max-compiles", "train_step=2")
    assert done.exit_code == 1
    assert done.stdout.startswith("over budget: evaluate: 2 compiles, 1 allowed\n")
    assert "train_step recompiled" not in done.stdout
    assert check(trace, "--max-variants", "evaluate=2,train_step=2").exit_code == 0
    assert check(trace, "--settle-by", "evaluation=1").exit_code == 0
    assert check(trace, "--settle-by", "0").exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--max-compiles", "training_step=1"],
            "no function training_step was compiled; there are evaluate, train_step",
        ),
        (["--settle-by", "train=1"], "no step is called train; there are evaluation, step"),
        (["--max-device-memory", "1GB"], "max_device_memory: the trace does not show it"),
    ],
)
def test_what_cannot_be_judged_is_exit_2(check: Check, words: list[str], said: str) -> None:
    done = check("main.pftrace", *words)
    assert done.exit_code == 2
    assert done.stdout.splitlines()[0].startswith("could not check: ")
    assert said in done.stdout


def test_memory_is_compared_with_its_peak(check: Check) -> None:
    assert check("main.pftrace", "--max-memory", "1 TB").exit_code == 0
    done = check("main.pftrace", "--max-memory", "1MiB")
    assert done.exit_code == 1
    assert re.match(r"over budget: memory at its peak [\d.]+ [MG]iB, 1.0 MiB allowed", done.stdout)


def test_steps_that_may_still_settle_are_not_called_over() -> None:
    """Two quiet steps at the end are too few, a compile in the third of three is too many."""
    trace = steps_of("cqqcqq")
    assert verdict_of(trace, settle_by=1) == "over"
    assert verdict_of(trace, settle_by=4) == "unknown"
    assert verdict_of(steps_of("cqqcqqq"), settle_by=4) == "within"
    assert verdict_of(steps_of("cccccc"), settle_by=2) == "over"


def steps_of(compiled: str) -> Trace:
    """A trace with one kind of step, which compiles something where `compiled` has a c."""
    from coldstep.analysis.derive import analyse

    trace = sample()
    trace.settling, trace.cost, trace.recompiles, trace.findings = [], [], [], []
    steps = [row for row in trace.intervals if row.name == "jax"][: len(compiled)]
    trace.intervals = steps
    for number, (row, letter) in enumerate(zip(steps, compiled, strict=True)):
        row.index, row.step, row.compiles = number, number, []
        if letter == "c":
            compile_ = replace(trace.compiles[0], id=f"s{number}", segments=trace.compiles[0].segments)
            trace.compiles.append(compile_)
            row.compiles = [compile_.id]
    for compile_ in trace.compiles:
        compile_.segments = [replace(segment, interval=0) for segment in compile_.segments]
        compile_.reason = "first"
    trace.graph_breaks = []
    return analyse(trace)


def verdict_of(trace: Trace, **settings: object) -> str:
    return judge([trace], parse(settings)).word


def test_a_kind_of_step_run_too_seldom_hides_no_broken_limit() -> None:
    trace = steps_of("cqqqqq")
    for row in trace.intervals[4:]:
        row.name, row.step = "val", row.index - 4
    verdict = judge([trace], parse({"settle_by": 1, "max_compiles": 0}))
    [why] = [row.why for row in verdict.checks if row.verdict == "unknown"]
    assert why == (
        "val was run 2 times: to settle by step 1 takes 4; to leave val out, name the steps to settle: jax=1"
    )
    assert verdict.word == "over"
    lines = ci.text(ci.Checked(["t.pftrace"], [trace], verdict)).splitlines()
    assert lines[0].startswith("over budget: ")
    assert f"could not check: settle_by val: {why}" in lines
    assert judge([trace], parse({"settle_by": "jax=1"})).word == "within"


@pytest.mark.parametrize("kind", ["cache_limit", "failed_compile", "skipped_forever"])
def test_what_compiles_no_more_is_over_any_limit_on_compiles(kind: str) -> None:
    """Once a function runs eagerly it compiles nothing, and so seems settled."""
    trace = sample()
    trace.findings = [of_compile(trace, trace.compiles[0], kind, "train_step reached its limit", severity="error")]
    verdict = judge([trace], parse({"max_recompiles": 9, "settle_by": 1}))
    assert verdict.word == "over"
    said = ci.text(ci.Checked(["t.pftrace"], [trace], verdict))
    assert said.startswith("over budget: 1 error, 0 allowed\n")
    assert "train_step reached its limit" in said
    assert verdict_of(trace, max_recompiles=9, max_errors=1) == "within"
    trace.memory.peak_rss_bytes = 1
    assert verdict_of(trace, max_memory="1 TB") == "within"
    assert verdict_of(trace, max_errors=0) == "over"


def test_a_function_that_the_baseline_has_not_and_one_that_only_it_has() -> None:
    before, now = sample(), sample()
    for row in before.compiles:
        row.function = row.function.replace("GPT.forward", "BERT.forward")
    verdict = judge([now], parse({}), [before])
    said = ci.text(ci.Checked(["t.pftrace"], [now], verdict))
    assert "over budget: GPT.forward: new, 2 compiles, 1 allowed" in said
    assert "note: BERT.forward was compiled 2 times in the baseline, and not at all now" in said
    assert judge([now], parse({}), [now]).notes == []


# --- times --------------------------------------------------------------------------------------------------------


def test_confidence_is_exact() -> None:
    assert confidence_of_more([4, 5, 6], [1, 2, 3]) == 0.95
    assert confidence_of_more([1, 2, 3], [4, 5, 6]) == 0
    assert confidence_of_more([4, 5, 6, 7], [1, 2, 3, 3]) == 1 - 1 / 70
    assert confidence_of_more([1, 3, 5], [2, 4, 6]) == pytest.approx(0.2)  # 16 of the 20 orders show as much
    assert confidence_of_more([2, 2, 2], [2, 2, 2]) == 0


def timed(first_step_ms: int) -> Trace:
    trace = sample()
    for cost in trace.cost:
        cost.first_step.wall_ns = first_step_ms * 1_000_000
        cost.first_step.phases[0].ns = first_step_ms * 500_000
    return trace


def test_times_need_several_runs_and_say_how_sure_they_are() -> None:
    before, slower = [timed(ms) for ms in (100, 103, 98)], [timed(ms) for ms in (150, 140, 155)]
    budget = parse({"max_slowdown": "20%"})
    verdict = judge(slower, budget, before)
    slow = [row for row in verdict.checks if row.limit == "max_slowdown"]
    assert {row.verdict for row in slow} == {"over"}
    text = ci.text(ci.Checked(["a", "b", "c"], slower, verdict))
    said = "first step of jax 150 ms, 100 ms in the baseline (+50 %), +20 % allowed; medians of 3 and 3 runs; longer "
    assert f"{said}than allowed with 95 % confidence" in text
    within = judge([timed(ms) for ms in (100, 140, 99)], budget, before)
    assert {row.verdict for row in within.checks if row.limit == "max_slowdown"} == {"within"}
    assert judge(slower[:2], budget, before).word == "unknown"
    phase = judge(slower, parse({"max_slowdown": {"xla.compile": "20%"}}), before)
    assert {row.subject for row in phase.checks if row.verdict == "over"} >= {"xla.compile of jax"}


def test_a_time_alone_is_refused_without_a_baseline(check: Check) -> None:
    done = check("main.pftrace", "--max-slowdown", "20%")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "coldstep: --max-slowdown compares with traces: give them with --baseline\n"


# --- a baseline ---------------------------------------------------------------------------------------------------


def test_a_baseline_allows_what_it_has_and_no_more(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, branch = (Path(name).resolve() for name in ("main.pftrace", "branch.pftrace"))
    monkeypatch.chdir(tmp_path)
    assert check(main, "--baseline", main).exit_code == 0
    assert check(main, "--baseline", branch).exit_code == 0
    assert check(branch, "--baseline", branch).exit_code == 0
    done = check(branch, "--baseline", main)
    assert done.exit_code == 1
    assert "over budget: train_step: 1 → 2 compiles" in done.stdout
    assert "batch['x'] was f32[8,4], now f32[5,4]" in "\n".join(done.stdout.splitlines()[:10])
    assert check(branch, "--baseline", main, "--baseline", branch).exit_code == 0
    assert check(branch, "--baseline", main, "--max-recompiles", "2").exit_code == 0


# --- what was not seen --------------------------------------------------------------------------------------------


def doubtful(tmp_path: Path, source: str) -> Trace:
    """The trace of a program that ends as `source` lets it."""
    done = program.run(source, tmp_path, check=False, stack="jax")
    assert (tmp_path / "t.pftrace").exists(), done.stderr
    return coldstep.load(tmp_path / "t.pftrace")


STEPS = """
for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(np.ones(3)))
"""


def program_of(before: str, inside: str = STEPS) -> str:
    head = "import jax, numpy as np\nimport coldstep\n@jax.jit\ndef step(x):\n    return x + 1\n"
    return head + before + '\nwith coldstep.trace("t.pftrace"):\n' + textwrap.indent(inside, "    ")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("jax.jit(lambda x: x)(1.0)", "the collector jax was attached after something had compiled"),
        (
            "import coldstep_collectors.jax.collector as ours\nours.Describer.describe = lambda *_: 1 / 0",
            "the collector jax failed during the run (collector jax failed and was detached: ZeroDivisionError",
        ),
        (
            "import sys\ndel jax.monitoring.register_scalar_listener, sys.modules['jax._src.dispatch']",
            "the collector jax could not be attached wholly",
        ),
    ],
)
def test_a_late_failed_or_partial_collector_never_passes(tmp_path: Path, before: str, said: str) -> None:
    trace = doubtful(tmp_path, program_of(before))
    verdict = judge([trace], parse({"max_recompiles": 1000}))
    assert verdict.word == "unknown"
    assert said in "\n".join(verdict.doubts)


def test_a_framework_that_was_merely_imported_or_never_is_no_reason_to_doubt(check: Check, tmp_path: Path) -> None:
    doubtful(tmp_path, program_of("import torch, optax"))
    done = check(tmp_path / "t.pftrace", "--max-compiles", "1")
    assert done.exit_code == 0, done.output
    never = doubtful(tmp_path, program_of(""))
    assert "torch" not in never.processes[0].versions
    assert judge([never], parse({"max_recompiles": 0, "max_graph_breaks": 0, "settle_by": 1})).word == "within"


def test_a_framework_that_no_collector_watched_is(tmp_path: Path) -> None:
    source = program_of("").replace('"t.pftrace"', '"t.pftrace", collectors="imports,dynamo"')
    trace = doubtful(tmp_path, source)
    verdict = judge([trace], parse({"max_recompiles": 0}))
    assert verdict.doubts == ["jax was imported, but the collector jax did not watch it"]
    assert judge([trace], parse({"max_graph_breaks": 0})).word == "within"


def test_a_run_that_was_cut_or_did_not_end_never_passes(check: Check, tmp_path: Path) -> None:
    doubtful(tmp_path, program_of("import os", STEPS + "os.kill(os.getpid(), 9)"))
    done = check(tmp_path / "t.pftrace", "--max-compiles", "9")
    assert done.exit_code == 2
    assert done.stdout.startswith("could not check: the trace was cut: the process was killed")
    failed = doubtful(tmp_path, program_of("", STEPS + "raise ValueError('no data')"))
    [doubt] = judge([failed], parse({"max_recompiles": 9})).doubts
    assert doubt == "the run did not come to its end: exception (ValueError: no data)"


def test_lost_events_and_several_traces(check: Check, tmp_path: Path) -> None:
    whole, lossy = (coldstep.load("main.pftrace") for _ in range(2))
    lossy.run.dropped = Dropped(ledger=3)
    verdict = judge([whole, lossy], parse({"max_recompiles": 0}))
    assert (verdict.word, verdict.doubts) == ("unknown", ["trace 2: 3 events were lost to a write error"])
    done = check("main.pftrace", "branch.pftrace", "--max-recompiles", "0")
    assert done.exit_code == 1
    assert done.stdout.startswith("over budget: branch.pftrace: 2 recompiles, 0 allowed\n")
    assert "branch.pftrace: train.py:" in done.stdout


# --- input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.pftrace"], "cannot read missing.pftrace"),
        (["main.pftrace", "--max-recompiles", "none"], "--max-recompiles: 'none' is not a count, such as 0"),
        (["main.pftrace", "--max-slowdown", "2"], "--max-slowdown: '2' is not a percentage, such as '20%'"),
        (["main.pftrace", "--max-memory", "much"], "--max-memory: 'much' is not a size in bytes, such as '8 GiB'"),
        (["main.pftrace", "--forbid", "weather"], "--forbid: 'weather' is no cause; there are shape, "),
        (["main.pftrace", "-o", "check.html"], "cannot choose a format for check.html"),
        (["main.pftrace", "--baseline", "train.py"], "train.py is not a Perfetto trace"),
    ],
)
def test_bad_input_is_one_line(check: Check, words: list[str], said: str) -> None:
    done = check(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"coldstep: {said}")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "pyproject.toml",
            "[tool.coldstep]\nmax_recompile = 0",
            "unknown limit 'max_recompile'; there are max_recompiles",
        ),
        ("pyproject.toml", "[tool.coldstep]\nsettle_by = -1", "settle_by: -1 is not a count"),
        ("pyproject.toml", "[tool.coldstep]\nmax_graph_breaks = true", "max_graph_breaks: True is not a count"),
        ("pyproject.toml", "[tool]\ncoldstep = 3", "[tool.coldstep] is no table"),
        ("pyproject.toml", "[tool.coldstep", "cannot read "),
        ("setup.cfg", "[coldstep]\nforbid = shape, weather", "forbid: 'weather' is no cause"),
        ("setup.cfg", "max_recompiles = 0", "cannot read "),
    ],
)
def test_a_bad_configuration_is_one_line(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, said: str
) -> None:
    trace = Path("main.pftrace").resolve()
    (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    done = check(trace)
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert name in line
    assert said in line


def test_a_setup_cfg_of_a_folder_above_counts_up_to_the_repository(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Path("branch.pftrace").resolve()
    (tmp_path / "setup.cfg").write_text("[coldstep]\nmax_compiles = 1,\n  train_step=2\n  evaluate=2\n")
    folder = tmp_path / "package" / "inner"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert check(trace).exit_code == 0
    (tmp_path / "package" / ".git").mkdir()
    done = check(trace)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("coldstep: no budget: give a limit such as --max-recompiles 0")


def test_an_unknown_limit_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(BudgetError, match="unknown limit 'recompiles'"):
        parse({"recompiles": 0})


# --- hostile traces -----------------------------------------------------------------------------------------------


def test_nothing_in_a_trace_can_command_the_runner_or_break_the_xml() -> None:
    trace = sample()
    for compile_ in trace.compiles:
        compile_.caller = Location("::error::a,b.py", 3, "f")
        compile_.function = "f\n::set-env name=A::b\x1b[31m\x00]]><x>%0A"
    trace.recompiles[0].evidence = ["first\n  ::warning::second\n##[error]third"]
    trace.findings = findings(trace)
    checked = ci.Checked(["a.pftrace"], [trace], judge([trace], parse({"max_recompiles": 0})))
    lines = ci.github(checked, "").split("\n")
    commands = [line for line in lines if line.lstrip().startswith(("::", "##["))]
    assert len(commands) == 2
    assert all(line.startswith("::error file=%3A%3Aerror%3A%3Aa%2Cb.py,line=3,title=") for line in commands)
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", "\n".join(lines))
    xmlschema.validate(ci.junit(checked), str(Path(__file__).parents[1] / "junit.xsd"))


def test_recompiles_of_one_function_are_one_block_for_people_and_each_in_json() -> None:
    trace = coldstep.load(Path(__file__).parents[1] / "traces" / "torch_train.pftrace")
    checked = ci.Checked(["t"], [trace], judge([trace], parse({"max_recompiles": 0})))
    for text in (ci.text(checked), ci.summary(checked)):
        assert text.count("tail recompiled 3 times: ") == 1
        assert "tail recompiled in" not in text
    assert "::tail recompiled 3 times: " in ci.github(checked, "")
    [check] = [row for row in ci.as_json(checked)["checks"] if row["limit"] == "max_recompiles"]
    assert sum("tail recompiled in" in row["text"] for row in check["findings"]) == 3


def test_a_check_without_findings_is_annotated_too_and_many_are_cut() -> None:
    trace = sample()
    trace.memory.peak_rss_bytes = 10
    place = Location("train.py", 1, "f")
    trace.findings = [
        Finding("", 0, "recompile", "warning", None, None, 0, place, f"f{n} recompiled", [], "", ["r0"])
        for n in range(30)
    ]
    checked = ci.Checked(["t"], [trace], judge([trace], parse({"max_recompiles": 0, "max_memory": 5})))
    assert sum(line.startswith("::error ") for line in ci.github(checked, "").split("\n")) == 10
    assert "and 10 more findings; --format json has them all" in ci.text(checked)
    trace.findings = []
    alone = ci.Checked(["t"], [trace], judge([trace], parse({"max_memory": 5})))
    assert ci.github(alone, "").endswith("::memory at its peak 10 B, 5 B allowed")


def test_a_compile_that_was_refused_is_no_first_one() -> None:
    trace = sample()
    first = next(row for row in trace.compiles if row.reason == "first")
    refused = replace(first, id="refused", outcome="limit")
    assert "compiled for the first time" in budgets._Culprits(trace).of(first).text
    assert f"{first.function} reached its limit of variants" in budgets._Culprits(trace).of(refused).text
