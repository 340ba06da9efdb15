"""Commands in the test's own process, where what they print is asked for and not how the process starts."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from click.testing import CliRunner

from coldstep_viewers.commands import cli


def run(*words: object, cwd: Path = Path()) -> subprocess.CompletedProcess[str]:
    """`coldstep …` in that folder: its exit code and what it prints."""
    arguments = [str(word) for word in words]
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(cli.main, arguments, prog_name="coldstep", catch_exceptions=False)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
