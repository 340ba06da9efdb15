"""The workflow in examples/ci: its commands print the log and the summary that lie beside it."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from coldstep_viewers.commands import cli

HERE = Path(__file__).parents[2] / "examples" / "ci"
pytestmark = [pytest.mark.jax, pytest.mark.torch]


def without_times(text: str) -> list[str]:
    """The lines; their order goes by cost."""
    return sorted(re.sub(r"\d+(?:\.\d+)? (?:µs|ms|s)\b", "…", line) for line in text.splitlines())


def test_the_workflow_prints_what_lies_beside_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, check = re.findall(r"run: (coldstep .+)", (HERE / "recompilation.yml").read_text())
    assert train == "coldstep run -o run.pftrace train.py"  # as the repository was run
    shutil.copytree(repository, tmp_path / "checkout")
    monkeypatch.chdir(tmp_path / "checkout")
    shutil.copy("branch.pftrace", "run.pftrace")
    summary = tmp_path / "summary.md"
    env = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(Path.cwd()), "GITHUB_STEP_SUMMARY": str(summary)}
    done = CliRunner().invoke(cli.main, shlex.split(check)[1:], env=env, catch_exceptions=False)
    _, recorded = (HERE / "log.txt").read_text().split(f"$ {check}\n")
    assert without_times(f"{done.stdout}exit code {done.exit_code}") == without_times(recorded)
    assert without_times(summary.read_text()) == without_times((HERE / "summary.md").read_text())
    assert Path("coldstep.xml").exists()
