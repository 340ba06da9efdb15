"""The studies of `examples/` at their smallest: each case is one command, goes on where it stopped, and has its why."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import program
import pytest
from benchmarks.study import endings, page, runner
from benchmarks.study.cases import Study
from benchmarks.study.results import COLUMNS, rows
from examples.cliffs.__main__ import STUDY
from examples.one_source.__main__ import STUDY as ONE_SOURCE
from examples.parallel import ranks
from examples.parallel.__main__ import STUDY as PARALLEL

from coldstep.analysis.across.frameworks import StackRow
from coldstep.analysis.across.sweeps import Point

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]


def study(*words: str) -> subprocess.CompletedProcess[str]:
    begin = [sys.executable, "-m", "examples.cliffs", *words]
    return subprocess.run(begin, cwd=ROOT, capture_output=True, text=True, timeout=500)


def ended(words: Sequence[str], environment: Mapping[str, str], limit_s: int) -> endings.Ending:
    """As `endings.run`, in a process that has imported the framework."""
    stack = "jax" if "jax" in words else "torch"
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as folder:
        given = {**environment, "PYTHONPATH": paths}
        return endings.of(program.warm(stack, [*words[2:]], Path(folder), env=given, check=False))


@pytest.fixture(scope="module", autouse=True)
def warm() -> Iterator[None]:
    """Each case runs in such a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endings, "run", ended)
        yield


@pytest.fixture(scope="module")
def cliffs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cliffs")
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        runner.main(STUDY, ["shapes", "untraceable", "--quick", "-o", str(folder)])
    assert "shapes: as_is in jax, n = 2 …" in error.getvalue()
    assert "JAX\n" in out.getvalue()
    assert "graph break" in out.getvalue()
    return folder


@pytest.mark.jax
@pytest.mark.torch
def test_each_shape_is_a_compile_in_both_stacks_and_each_value_a_row(cliffs: Path) -> None:
    found = page.results(STUDY, cliffs)
    made = {(row["stack"], row["n"]): row for each in found["shapes"] for row in rows(each)}
    assert {key: row["compiles"] for key, row in made.items()} == {
        ("jax", 1): 1, ("jax", 2): 2, ("aot_eager", 1): 1, ("aot_eager", 4): 4,
    }  # fmt: skip
    assert {row["cause"] for (_, n), row in made.items() if n != 1} == {"shape"}
    for row in made.values():
        assert tuple(row) == COLUMNS
        assert row["ended"] == "ok"
        assert row["eager_over_compiled"] > 0
        assert row["peak_bytes"] > 0
    each = found["shapes"][0]
    each.records = {n: replace(record, eager_ns=1) for n, record in each.records.items()}
    assert all(0 < row["eager_over_compiled"] < 0.001 for row in rows(each)), "shown as 0 times a busy machine's step"


@pytest.mark.jax
@pytest.mark.torch
def test_what_does_not_trace_is_a_row_with_what_to_write_instead(cliffs: Path) -> None:
    found = page.results(STUDY, cliffs)
    made = {row["stack"]: row for each in found["untraceable"] for row in rows(each)}
    assert (made["jax"]["ended"], made["jax"]["first_ns"]) == ("failed", None)
    assert "NonConcreteBooleanIndexError" in made["jax"]["why"]
    assert "jnp.where(mask, new, old)" in made["jax"]["answer"]
    assert (made["aot_eager"]["ended"], made["aot_eager"]["cause"]) == ("ok", "data_dependent")


@pytest.mark.jax
@pytest.mark.torch
def test_a_case_whose_record_is_there_is_not_run_again(cliffs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cliffs / "shapes/jax-as_is-2.json").unlink()
    runner.main(STUDY, ["shapes", "--quick", "-o", str(cliffs)])
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("[")] == [
        "[1/2] shapes: as_is in jax, n = 2 …"
    ]
    assert json.loads((cliffs / "shapes/jax-as_is-2.json").read_text())["ended"] == "ok"


def test_the_cases_are_listed_without_a_run_and_a_wrong_one_is_a_line() -> None:
    listed = study("--list").stdout.splitlines()
    assert "shapes: as_is in tensorflow, n = 1, 4, 16" in listed
    assert {line.partition(":")[0] for line in listed} == set(STUDY.sweeps)
    done = study("holes")
    assert done.returncode == 2
    assert "holes is none of loops, " in done.stderr.splitlines()[-1]


def run_of(study: Study, folder: Path, ways: dict[str, dict[str, dict[str, tuple[int, ...]]]]) -> None:
    """Run these ways alone, by sweep and stack."""
    sweeps = {name: replace(study.sweeps[name], ways=of) for name, of in ways.items()}
    runner.main(replace(study, sweeps=sweeps), ["--quick", "-o", str(folder)])


@pytest.mark.jax
@pytest.mark.torch
def test_each_rank_compiles_as_often_as_its_framework_counts_and_who_waits_is_named(tmp_path: Path) -> None:
    one_rank, resharded = {"aot_eager": {"one_rank": (2,)}}, {"jax": {"as_it_is": (2,)}}
    run_of(PARALLEL, tmp_path, {"sizes": one_rank, "resharded": resharded})
    made = {run.curve.sweep: run for run in ranks.runs(tmp_path)}
    assert made["sizes"].compiles == made["sizes"].counted == [1, 2]
    assert made["sizes"].again.startswith("shape ")
    [late] = [text for text in made["sizes"].late if "in step 1" in text]
    assert "rank 1 compiled" in late
    assert "rank 0 waited for it" in late
    assert made["resharded"].compiles == made["resharded"].counted
    assert made["resharded"].again.startswith("sharding ")
    assert "resharded" in page.results(PARALLEL, tmp_path)


@pytest.mark.jax
def test_a_pallas_kernel_is_a_compile_of_the_programs_own(tmp_path: Path) -> None:
    run_of(ONE_SOURCE, tmp_path, {"kernels": {"jax": {"pallas": (1,)}}})
    [each] = page.results(ONE_SOURCE, tmp_path)["kernels"]
    assert [(row["compiles"], row["ended"]) for row in rows(each)] == [(1, "ok")]


@pytest.mark.jax
@pytest.mark.torch
def test_a_flow_learns_alike_in_both_stacks_also_from_padded_batches() -> None:
    from examples.flow_matching import in_jax, in_torch, molecules

    given = [*islice(molecules.batches(molecules.SIZES[:1]), 2)]
    padded = [molecules.padded(batch, molecules.SIZES[1:2]) for batch in given]
    losses = []
    for made, batches in ((in_jax.trainer, given), (in_torch.trainer, padded)):
        trainer = made("aot_eager", dynamic=False)
        before = trainer.counted()
        losses.append([float(trainer.update(batch, 1e-3)) for batch in batches])
        assert trainer.counted() == before + 1
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def point(until_steady_s: float, steady_ms: float | None) -> Point:
    row = StackRow("jax", "JAX", "", first_ns=int(until_steady_s * 1e9), walls_ns=[int(until_steady_s * 1e9)])
    row.steady_ns = int(steady_ms * 1e6) if steady_ms is not None else None
    return Point("1", row, None, "")


def test_whether_a_remedy_pays_is_told_by_both_prices() -> None:
    assert page.verdict(point(5, 10), point(1, 10)) == "yes"
    assert page.verdict(point(5, 10), point(5, 10.5)) == "no difference"
    assert page.verdict(point(5, 10), point(5, 20)) == "no"
    assert page.verdict(point(5, 10), point(1, 20)) == "for 400 steps"
    assert page.verdict(point(1, 20), point(5, 10)) == "after 400 steps"
    assert page.verdict(point(5, None), point(5, 10)) == "yes: the other never settles"
    assert page.verdict(point(5, 10), Point("1", StackRow("jax", "JAX", ""), None, "")) == "no: it does not run"
    assert page.verdict(Point("1", StackRow("jax", "JAX", ""), None, ""), point(5, 10)) == "yes: the other does not run"
