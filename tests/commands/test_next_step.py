"""`coldstep` alone names the newest traces of a folder and opens none; the shell completes commands and files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def coldstep(folder: Path, **env: str) -> str:
    words = [sys.executable, "-m", "coldstep"]
    done = subprocess.run(words, cwd=folder, env=os.environ | env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_in_an_empty_folder_it_says_how_to_make_a_trace(tmp_path: Path) -> None:
    text = coldstep(tmp_path)
    assert "  coldstep run train.py\n  coldstep report train.pftrace\n" in text
    (tmp_path / "main.py").touch()
    assert "  coldstep run main.py\n  coldstep report main.pftrace\n" in coldstep(tmp_path)


def test_the_newest_traces_are_named_and_none_is_opened(tmp_path: Path) -> None:
    for number in range(12):
        trace = tmp_path / f"run{number}.pftrace"
        trace.touch()
        trace.chmod(0)  # whoever opens it fails, but for root
        os.utime(trace, (number, number))
    lines = coldstep(tmp_path).splitlines()
    assert lines[0] == "Traces here, the newest 10 of 12:"
    assert lines[1:11] == [f"  run{number}.pftrace" for number in range(11, 1, -1)]
    assert "  coldstep diff run10.pftrace run11.pftrace" in lines
    assert lines[12].startswith("  coldstep report run11.pftrace ")


def test_it_imports_neither_click_nor_what_reads_traces(tmp_path: Path) -> None:
    code = "import sys; from coldstep.__main__ import main; main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    loaded = {*done.stdout.splitlines()[-1].split()}
    assert not loaded & {"click", "rich", "jinja2", "coldstep.loading", "coldstep.pftrace.reader"}


def test_a_name_that_would_move_the_cursor_is_printed_as_text(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2J.pftrace").touch()
    assert "\x1b" not in coldstep(tmp_path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("coldstep ex", "plain,explain"), ("coldstep report --al", "plain,--all"), ("coldstep report r", "file,r")],
)
def test_a_shell_completes_commands_options_and_files(tmp_path: Path, words: str, expected: str) -> None:
    (tmp_path / "run.pftrace").touch()
    env = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_COLDSTEP_COMPLETE": "bash_complete"}
    assert expected in coldstep(tmp_path, **env).split("\n")
