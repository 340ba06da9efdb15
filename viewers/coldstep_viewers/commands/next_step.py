"""`coldstep` alone: what to do next in this folder. It reads names and dates, opens no trace, and imports no click."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from coldstep_viewers.commands.output import echo
from coldstep_viewers.safe_text import plain

_MOST = 10
_MOST_SEEN = 1_000  # files of a folder that are looked at
_TRACE, _SCRIPTS = ".pftrace", ("train.py", "main.py", "run.py")


def main() -> int:
    """Print it; the exit code."""
    echo("\n".join(lines(Path())))
    return 0


def lines(folder: Path) -> Iterator[str]:
    """What `coldstep` prints: the newest traces, and a command for the newest, or how to make one."""
    files = [row for row, _ in zip(_files(folder), range(_MOST_SEEN), strict=False)]
    traces = sorted((row for row in files if row.name.endswith(_TRACE)), key=_age)
    if not traces:
        names = {row.name for row in files}
        script = next((name for name in _SCRIPTS if name in names), "train.py")
        yield "No trace here. To make one, and read it:"
        yield f"  coldstep run {script}"
        yield f"  coldstep report {Path(script).stem}{_TRACE}"
    else:
        more = f", the newest {_MOST} of {len(traces)}" if len(traces) > _MOST else ""
        yield f"Traces here{more}:"
        yield from (f"  {plain(row.name)}" for row in traces[:_MOST])
        newest = plain(traces[0].name)
        yield "Next:"
        yield f"  coldstep report {newest}    what to change"
        yield f"  coldstep open {newest}      the timeline"
        if len(traces) > 1:
            yield f"  coldstep diff {plain(traces[1].name)} {newest}"
    yield "All commands: coldstep --help"


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # a folder that may not be listed, or is gone
        return


def _age(file: os.DirEntry[str]) -> float:
    try:
        return -file.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0
