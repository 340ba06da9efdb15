"""`coldstep diff`: two runs side by side, whatever machine, commit or framework version they are of."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sample_trace import sample

from coldstep.analysis.across.run_diff import Function, Summary, function_changes
from coldstep.logs import convert
from coldstep.model import Cache
from coldstep.vocabulary import OURS
from coldstep_viewers.commands import cli
from coldstep_viewers.commands.compare import diff

pytestmark = [pytest.mark.jax, pytest.mark.torch]


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["diff", *map(str, words)], catch_exceptions=False)


def test_what_compiles_differently_is_said_with_its_cause(repository: Path) -> None:
    done = run(repository / "main.pftrace", repository / "branch.pftrace")
    assert (done.exit_code, done.stderr) == (0, "")
    for name in ("train_step (jax, train.py)", "evaluate (dynamo, train.py)"):
        assert f"{name}: 1 → 2 compiles, " in done.stdout
    assert "\nin all: 2 → 4 programs compiled, the run " in done.stdout
    assert done.stdout.count("    recompiles for shape of batch['x']: 0 → 1\n") == 2


def test_a_run_compared_with_itself_has_nothing_to_say(repository: Path) -> None:
    done = run(repository / "main.pftrace", repository / "main.pftrace")
    assert "2 functions as before" in done.stdout
    assert "→" not in done.stdout.partition("\n")[2]


def test_as_data_it_has_both_sides(repository: Path) -> None:
    said = json.loads(run(repository / "main.pftrace", repository / "branch.pftrace", "--json").stdout)
    assert said["schema"] == "coldstep-diff/1"
    [train] = [row for row in said["functions"] if row["after"]["name"] == "train_step"]
    assert (train["before"]["compiles"], train["after"]["compiles"], train["differs"]) == (1, 2, True)
    assert train["after"]["recompiles"] == {"shape of batch['x']": 1}
    assert train["cost_ns"] == train["after"]["cost_ns"] - train["before"]["cost_ns"]
    assert {row["name"]: row["after"]["settled_at_step"] for row in said["steps"]} == {"step": 1, "evaluation": 1}


def test_a_cold_and_a_warm_run_are_not_compared_in_time() -> None:
    cold, warm = sample(), sample()
    for row in warm.compiles:
        if row.origin == "user":
            row.caches = [Cache("inductor.fx_graph", "hit", None)]
    for row in cold.compiles:
        row.caches = []
    [said] = diff._unlike(cold, warm)
    assert said.startswith("not comparable in time: BEFORE none of its ")
    assert "AFTER 4 of its 4 compiles found compiled code in a disk cache" in said
    assert list(diff._unlike(warm, warm)) == []
    mended = sample()
    mended.compiles = [row for row in warm.compiles if row.origin != "user" or row.reason == "first"]
    assert 0 < len(mended.compiles) < len(warm.compiles)
    assert list(diff._unlike(warm, mended)) == []
    warm.cost = []
    assert "only BEFORE has steps: those of the other are not marked" in list(diff._unlike(cold, warm))


def test_a_log_without_times_has_no_length(tmp_path: Path) -> None:
    (tmp_path / "ci.log").write_text(
        "[__recompiles] Recompiling function step in /repo/train.py:3\n"
        "[__recompiles]     triggered by the following guard failure(s):\n"
        "[__recompiles]     - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 5\n"
    )
    convert([str(tmp_path / "ci.log")], str(tmp_path / "ci.pftrace"), lambda read, total: None)
    done = run(tmp_path / "ci.pftrace", tmp_path / "ci.pftrace")
    assert "\nin all: 1 program compiled\n" in done.stdout


def test_bad_input_is_one_line(repository: Path) -> None:
    done = run(repository / "main.pftrace", repository / "train.py")
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "is not a Perfetto trace" in line


def of(*functions: Function) -> Summary:
    return Summary({row.key: row for row in functions})


def test_functions_are_known_again_where_they_moved_and_the_costliest_change_comes_first() -> None:
    before = of(
        Function("old.py", "step", "jax", 1, cost_ns=10),
        Function("a.py", "same", "jax", 1, cost_ns=7),
        Function("a.py", "gone", "jax", 1, cost_ns=5),
        Function("a.py", "twice", "jax", 1, cost_ns=1),
        Function("b.py", "twice", "jax", 1, cost_ns=1),
    )
    after = of(
        Function("new.py", "step", "jax", 3, Counter({"shape of x": 2}), cost_ns=100),
        Function("a.py", "same", "jax", 1, cost_ns=7),
        Function("c.py", "twice", "jax", 1, cost_ns=1),
    )
    rows = function_changes(before, after)
    said = [(row.before and row.before.file, row.after and row.after.file, row.cost_ns) for row in rows]
    assert said[:2] == [("old.py", "new.py", 90), ("a.py", None, -5)]
    assert sorted(said[2:], key=str) == sorted(
        [("a.py", None, -1), ("b.py", None, -1), (None, "c.py", 1), ("a.py", "a.py", 0)], key=str
    )
    assert [row.counts_differ for row in rows if row.before and row.after] == [True, False]
    text = "\n".join(diff._function(rows[0], OURS))
    assert text.startswith("step (jax, new.py): 1 → 3 compiles, 10 ns → 100 ns (+90 ns)\n    moved from old.py\n")
