"""Releases beside the newest: the page that tells how much of each is right, and interpreters of another version."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import CalledProcessError

import pytest
import scenarios
from pythons import another
from scenarios import versions, warm
from scenarios.elsewhere import HELD, NOT_EXPRESSIBLE, SHORT, WRONG, Result

OLDEST = versions.Release("jax", "0.4.35")


def test_the_page_counts_what_is_right_of_what_a_release_can_express() -> None:
    results = [
        Result("shape", False, HELD, missing=["jax: Python dispatches"]),
        Result("dtype", False, SHORT, "expected dtype; reported unknown", missing=["jax: Python dispatches"]),
        Result("mesh", False, NOT_EXPRESSIBLE, "jax has no set_mesh"),
        Result("nothing", True, HELD, missing=["jax: Python dispatches", "jax: the backend"]),
        Result("nothing_else", True, WRONG, "expected nothing; reported shape"),
    ]
    run = versions.Run.of(OLDEST, results)
    assert not run.holds
    lines = versions.page([run]).splitlines()
    assert f"| 0.4.35 | 3.11 | 1 of 2 (50%) | 1 | 1 | 1 | 1 of 2 | {run.date} | {run.commit} |" in lines
    assert "- WRONG: `nothing_else`: expected nothing; reported shape (0.4.35)" in lines
    assert "- not observed: jax: Python dispatches (0.4.35)" in lines
    assert not [line for line in lines if "the backend" in line]  # was seen in most programs


def test_a_run_takes_the_place_of_what_was_known_of_its_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "versions.json"
    kept.write_text("[]")
    monkeypatch.setattr(versions, "KEPT", kept)
    for number in ("0.9.2", "0.10.2"):
        versions.keep(versions.Run.of(versions.Release("jax", number), [Result("shape", False, SHORT, "says less")]))
    versions.keep(versions.Run.of(versions.Release("jax", "0.9.2"), [Result("shape", False)]))
    versions.keep(versions.Run.of(versions.Release("jax", "0.10.2", "3.13"), [Result("shape", False)]))
    assert [(run.release, run.python, run.right, [row.why for row in run.others]) for run in versions.kept()] == [
        ("0.10.2", "3.13", 1, []),
        ("0.10.2", "3.11", 0, ["says less"]),
        ("0.9.2", "3.11", 1, []),
    ]


def test_the_page_is_made_of_what_is_kept_and_that_is_what_is_promised() -> None:
    assert versions.PAGE.read_text() == versions.page(versions.kept())
    assert [run.release for run in versions.kept() if not run.holds] == []


def test_the_page_has_a_second_half_of_programs_without_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "KEPT", tmp_path / "versions.json")
    versions.KEPT.write_text("[]")
    versions.keep(versions.Run.of(OLDEST, [Result("shape", False)]))
    versions.keep(versions.Run.of(OLDEST, [Result("shape", False, SHORT, "says less")], marked=False))
    marked, unmarked = versions.page(versions.kept()).split("## JAX, programs without marks\n")
    assert "| 0.4.35 | 3.11 | 1 of 1 (100%) |" in marked
    assert "| 0.4.35 | 3.11 | 0 of 1 (0%) |" in unmarked
    assert "- short: `shape`: says less" in unmarked


def test_a_release_is_named_as_pip_names_it() -> None:
    assert versions.Release.parse("jax==0.10.2@3.13") == versions.Release("jax", "0.10.2", "3.13")
    assert versions.Release.parse("torch_xla==2.8.1").requirements() == ["torch_xla==2.8.1", "numpy", "torch==2.8.*"]
    assert versions.Release.parse("tensorflow==2.21.0").requirements() == ["tensorflow-cpu==2.21.0"]
    with pytest.raises(ValueError, match=r"not a release as jax==0\.9\.2"):
        versions.Release.parse("numpy==2.0.0")


def test_an_environment_is_made_by_a_python_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version manager leaves a shim on the path for each version that it has, and most of them fail."""
    for place, answer in (
        ("bin/python3.13", "exit 127"),
        (".pyenv/versions/3.13.0/bin/python3.13", '[ "$2" = venv ] && exit 1; echo 3.13'),
    ):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / place).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / ".pyenv"))
    monkeypatch.setattr(versions, "FOLDER", versions.ROOT / ".versions/of-a-test")  # which is not made
    with pytest.raises(SystemExit, match=r"no Python 3\.99 runs here"):
        versions.build(versions.Release("jax", "0.12.0.1", "3.99"))
    with pytest.raises(CalledProcessError, match=r"\.pyenv/versions/3\.13\.0/bin/python3\.13.*of-a-test"):
        versions.build(versions.Release("jax", "0.12.0.1", "3.13"))


def test_some_programs_are_of_every_kind() -> None:
    programs = scenarios.programs("jax")
    some = versions.spread(programs, 32)
    assert len(set(some)) == 32
    causes = {row[0] for path in some for row in scenarios.read(path).recompiles}
    assert {"shape", "dtype", "weak_type", "pytree", "static_argument", "sharding", "config"} <= causes
    assert versions.spread(programs, None) == versions.spread(programs, 1000) == programs


def test_a_program_says_what_older_releases_do_otherwise() -> None:
    scenario = scenarios.Scenario(Path("x.py"), says={"before": ["jax 0.5: XLA compiles it twice"]})
    assert scenario.before({"jax": "0.4.38"}) == "XLA compiles it twice"
    assert scenario.before({"jax": "0.10.2"}) == ""
    assert scenario.before({"torch": "0.4.38"}) == ""


def test_a_server_is_compiled_by_the_python_that_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    other = another()
    if other is None:
        pytest.skip("there is no Python of another version here")
    monkeypatch.setitem(warm.IMPORTS, "none", [])
    server = warm.Server("none", other, {})
    assert server.alive
    server.end()


def test_a_server_whose_framework_is_not_there_is_said_to_have_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(warm.IMPORTS, "none", ["no_such_framework"])
    with pytest.raises(AssertionError, match="the server died"):
        warm.Server("none", sys.executable, {})
