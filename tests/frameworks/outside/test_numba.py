"""The collector of examples/numba_collector, installed as anybody's distribution is: coldstep itself knows no Numba."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import in_process
import pytest

import coldstep
from coldstep.analysis.budgets import doubts
from coldstep.converting.rewrite import merge, strip
from coldstep.model import Trace
from coldstep.testing import assert_budget
from coldstep_viewers.export import tables

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "numba_program.py"


def run(python: str | Path, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, *map(str, words)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own with the collector installed; what else is in it, it has from this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    inside.joinpath("outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})")
    source = folder / "source"
    subprocess.run(["cp", "-r", ROOT / "examples/numba_collector", source], check=True)
    options = [
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--target",
    ]
    done = run(sys.executable, "-m", "pip", *options, inside, source, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "bin/python"


@pytest.fixture(scope="module")
def path(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numba")
    done = run(python, "-m", "coldstep", "run", "-o", "run.pftrace", PROGRAM, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "could not" not in done.stderr
    return folder / "run.pftrace"


@pytest.fixture(scope="module")
def trace(path: Path) -> Trace:
    """Read where the collector is not installed."""
    assert find_spec("coldstep_numba") is None
    return coldstep.load(path)


def test_it_tells_what_was_compiled_and_why_again(trace: Trace) -> None:
    (row,) = [row for row in trace.collectors if row.name == "numba"]
    assert (row.state, bool(row.version), len(row.missing)) == ("attached", True, 1)
    first, nested = trace.compiles[:2]
    assert (first.stack, first.function, first.origin, first.outcome) == ("numba", "train_step", "user", "compiled")
    assert first.location is not None
    assert first.location.file.endswith("numba_program.py")
    assert first.caller is not None
    assert first.caller.function == "<module>"
    assert [(leaf.argument, leaf.type) for leaf in first.inputs] == [
        ("weights", "f64[:] order(C)"),
        ("batch", "f64[:,:] order(C)"),
    ]
    assert (nested.function, nested.parent) == ("scale", first.id)
    found = [
        (row.step, row.cause, row.argument, row.before, row.after, row.confidence)
        for row in trace.recompiles
        if row.argument != "x"
    ]
    assert found == [
        (2, "dtype", "batch", "f64[:,:] order(C)", "f32[:,:] order(C)", "proven"),
        (4, "layout", "batch", "f64[:,:] order(C)", "f64[:,:] order(F)", "proven"),
        (5, "keyword", "power", None, "i64[]", "proven"),
        (None, "numba_option", "fastmath", None, "True", "proven"),
        (None, "new_function", None, "function 3", "function 5", "proven"),
    ]
    assert all(row.advice and "{" not in row.advice for row in trace.recompiles)
    assert [row.settled_at_step for row in trace.settling] == [6]
    assert {row.function: row.outcome for row in trace.compiles if row.outcome != "compiled"} == {"broken": "failed"}
    told = {row.kind: row for row in trace.findings}
    assert told["failed_compile"].text.endswith("Unknown attribute 'nothing' of type int64")
    assert told["numba_object_mode"].text.startswith("slow was compiled in object mode")


def test_its_time_is_in_the_ledger(trace: Trace) -> None:
    first = next(row for row in trace.intervals if row.step == 0)
    mine = {name: ns for name, ns in first.phases.items() if name.startswith("numba.")}
    assert set(mine) == {f"numba.{name}" for name in ("start", "bytecode", "passes", "types", "lower", "llvm")}
    assert sum(first.phases.values()) + first.unattributed_ns == first.wall_ns
    named = {phase for row in trace.compiles for s in row.segments for phase in s.phases if "import." not in phase}
    assert named <= set(trace.vocabulary.phases)


def test_every_viewer_has_its_words(trace: Trace, path: Path, tmp_path: Path) -> None:
    text = " ".join(in_process.run("report", path).stdout.split())
    for words in ("LLVM compilation", "layout of batch", "np.ascontiguousarray(batch)", "numba runs CPU kernels"):
        assert words in text
    assert in_process.run("report", path, "--html", tmp_path / "page.html").returncode == 0
    shown = (tmp_path / "page.html").read_text()
    assert "--numba-llvm: light-dark(#8c2f6b, #f0aad6)" in shown
    assert "LLVM compilation" in shown
    assert {"numba", "llvmlite"} <= set(trace.processes[0].versions)


def check(path: Path, *words: str) -> tuple[int, str]:
    done = in_process.run("check", path, *words)
    return done.returncode, done.stdout + done.stderr


def test_budgets_take_its_causes_and_need_its_collector(trace: Trace, path: Path, python: Path, tmp_path: Path) -> None:
    code, said = check(path, "--forbid", "numba_option")
    assert (code, "fastmath" in said) == (1, True)
    code, said = check(path, "--forbid", "numba_opinion")
    assert (code, "'numba_opinion' is no cause" in said, "numba_option" in said) == (2, True, True)
    assert_budget(trace, max_recompiles=6, max_errors=1, settle_by=6, forbid=["weak_type"])
    (tmp_path / "late.py").write_text(
        "import numba, coldstep\nf = numba.njit(lambda x: x)\nf(1)\nwith coldstep.trace('late.pftrace'):\n    f(2.0)\n"
    )
    assert run(python, "late.py", cwd=tmp_path).returncode == 0
    late = coldstep.load(tmp_path / "late.pftrace")
    assert list(doubts(late)) == [
        "the collector numba was attached after something had compiled "
        "(functions that Numba loads from its cache on disk (cache=True): it tells of what it compiles only)"
    ]
    late.collectors = [row for row in late.collectors if row.name != "numba"]
    assert list(doubts(late)) == ["numba was imported, but the collector numba did not watch it"]
    with_both = tmp_path / "merged.pftrace"
    merge([str(path), str(tmp_path / "late.pftrace")], str(with_both))
    assert {(row.process, row.stack) for row in coldstep.load(with_both).compiles} == {(0, "numba"), (1, "numba")}


def test_its_trace_is_stripped_and_exported(trace: Trace, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "stripped.pftrace"
    strip(str(path), str(out))
    stripped = coldstep.load(out)
    assert [row.cause for row in stripped.recompiles] == [row.cause for row in trace.recompiles]
    assert [row.stack for row in stripped.compiles] == [row.stack for row in trace.compiles]
    assert stripped.processes[0].versions == trace.processes[0].versions
    assert stripped.vocabulary == trace.vocabulary
    assert "numba_object_mode" in {row.kind for row in stripped.findings}
    for kind in ("parquet", "tensorboard"):
        assert in_process.run("export", path, "--to", kind, tmp_path / kind).returncode == 0
    assert len(list((tmp_path / "parquet").rglob("*.parquet"))) == len(tables.SCHEMAS)
    assert b"Numba" in next((tmp_path / "tensorboard").rglob("*.pb")).read_bytes()


def test_perfetto_shows_it_on_a_track_of_its_own(engine: ModuleType, path: Path) -> None:
    engine.assert_clean(path)
    (rows,) = engine.query(
        path,
        "select distinct t.name from slice s join track t on s.track_id = t.id where s.category = 'compile'",
    )
    assert rows == [{"name": "Numba"}]
