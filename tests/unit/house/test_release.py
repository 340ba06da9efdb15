"""What a release takes: one version, addresses in one place, forms that ask for what coldstep gives, an action."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coldstep_viewers.commands import cli

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[3]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
# https://github.com/owner/coldstep, https://coldstep.readthedocs.io, https://coldstep.dev
ADDRESS = re.compile(r"https?://(?:[\w.-]+/)*[\w.-]*coldstep", re.IGNORECASE)
PROGRAM = """
import jax, numpy as np
import coldstep

@jax.jit
def step(x):
    return x.sum()

for rows in (8, 8, 8, 8, {last}):
    with coldstep.step():
        coldstep.wait(step(np.ones(rows, np.float32)))
"""


def setup() -> ConfigParser:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def test_the_version_is_the_one_on_top_of_the_changelog() -> None:
    top = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert top is not None
    assert setup()["metadata"]["version"] == top[1]


def test_a_fragment_of_the_changelog_is_one_line() -> None:
    fragments = [path.read_text() for path in (ROOT / "changelog.d").glob("*.md")]
    assert [
        text for text in fragments if not re.fullmatch(r"[A-Z`].*[.]\n", text)
    ] == []  # Steps of optimizers are seen.


def test_fragments_go_below_the_top_version_and_leave_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "changelog.d"))
    import fold

    folder, changelog = tmp_path / "changelog.d", tmp_path / "CHANGELOG.md"
    folder.mkdir()
    changelog.write_text("# Changelog\n\n## 0.2.0 (unreleased)\n\nSome prose.\n\n## 0.1.0\n\n- Old.\n")
    for names in (("b", "a"), ("c",)):
        for name in names:
            (folder / f"{name}.md").write_text(f"Mended {name}.\n")
        fold.fold(folder, changelog)
    assert list(folder.iterdir()) == []
    assert changelog.read_text() == (
        "# Changelog\n\n## 0.2.0 (unreleased)\n\n- Mended c.\n- Mended a.\n- Mended b.\n\nSome prose.\n\n"
        "## 0.1.0\n\n- Old.\n"
    )


def test_the_metadata_is_whole() -> None:
    metadata = setup()["metadata"]
    assert {"name", "version", "description", "long_description", "license", "classifiers", "keywords"} <= {*metadata}
    page = (ROOT / "docs/explanation/environments.md").read_text()
    assert [extra for extra in setup()["options.extras_require"] if f"`coldstep[{extra}]`" not in page] == []


def test_no_address_of_the_project_stands_anywhere_but_in_setup() -> None:
    places = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml", *(str(path) for path in FORMS)]
    places += [str(path) for name in ("docs", "tracer", "viewers") for path in (ROOT / name).rglob("*.[mp][dy]")]
    assert [name for name in places if ADDRESS.search((ROOT / name).read_text())] == []
    assert ADDRESS.search("see https://github.com/somebody/coldstep")


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_commands_that_are_there(form: Path) -> None:
    asked = yaml.safe_load(form.read_text())
    if form.stem == "config":
        return
    assert {"name", "description", "body"} <= asked.keys()
    text = form.read_text()
    assert "coldstep strip train.pftrace -o public.pftrace" in text
    assert "coldstep report train.pftrace --format markdown" in text
    for name in {*re.findall(r"coldstep (strip|report|doctor)", text)}:
        assert CliRunner().invoke(cli.main, [name, "--help"]).exit_code == 0


def step_of(action: dict[str, Any], name: str) -> dict[str, Any]:
    return next(step for step in action["runs"]["steps"] if step["name"].startswith(name))


@pytest.mark.jax
@pytest.mark.parametrize(("last", "code"), [(8, 0), (5, 1)])
def test_the_action_fails_a_job_in_which_something_recompiles(tmp_path: Path, last: int, code: int) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (tmp_path / "train.py").write_text(PROGRAM.format(last=last))
    given = {"run": "train.py", "check": "--max-recompiles 0", "trace": action["inputs"]["trace"]["default"]}
    summary = tmp_path / "summary.md"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = []
    for step in (step_of(action, "Train"), step_of(action, "What")):
        names = {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda it: given[it[1]], text) for name, text in
                 step["env"].items()}  # fmt: skip
        assert "${{" not in step["run"]  # what an input holds is no part of a script
        done.append(subprocess.run(["bash", "-ec", step["run"]], cwd=tmp_path, env=env | names, capture_output=True))
    assert [each.returncode for each in done] == [0, code], done
    assert (tmp_path / "coldstep.xml").exists()
    assert ("step recompiled" in summary.read_text()) == bool(code)
    assert step_of(action, "Keep")["with"]["path"].splitlines() == ["${{ inputs.trace }}", "coldstep.xml"]


def test_the_action_installs_what_lies_beside_it() -> None:
    install = step_of(yaml.safe_load((ROOT / "action.yml").read_text()), "Install")
    assert install["env"] == {"SOURCE": "${{ github.action_path }}"}
    assert install["run"] == 'python -m pip install "$SOURCE"'
