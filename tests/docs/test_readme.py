"""README is one screen after another, each short; what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from coldstep_viewers.commands import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_readme_is_short() -> None:
    assert len(README.split()) <= 900
    assert [line for line in README.splitlines() if len(line) > 100 and not line.startswith("coldstep: ")] == []


def test_the_first_screen_has_the_picture_the_install_and_what_to_make() -> None:
    screen = "\n".join(README.splitlines()[:25])
    for words in ("docs/timeline.png", "pip install", "coldstep run", "coldstep report", "`make demo`", "`make test`"):
        assert words in screen


def test_the_commands_that_are_named_are_there() -> None:
    named = {*re.findall(r"(?:\$ |`)coldstep (\w+)", README)}
    assert {"run", "report", "open", "explain", "doctor"} <= named
    for name in named:
        assert CliRunner().invoke(cli.main, [name, "--help"]).exit_code == 0, name
