"""What became of a process whose trace has no end: it lives, a signal's default action ended it, or it was killed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from coldstep import clock
from coldstep._util.expressions import expression
from coldstep.events import Args
from coldstep.pftrace.writer import OPEN_END
from coldstep.places import is_installed

_TAIL_BYTES = 1 << 18  # more than faulthandler ever writes
# Python 3.11: "  File "/repo/train.py", line 12 in step"
_FRAME = expression(r'  File "(.*)", line (\d{1,9}) in (.*)', re.MULTILINE)


def lives(process: Args) -> bool:
    """Whether the process with these arguments still runs, on this machine."""
    host, boot, pid, born = (process.get(name) for name in ("host", "boot", "pid", "born"))
    here = host == os.uname().nodename and boot is not None and boot == clock.boot_id()
    return here and isinstance(pid, int) and born is not None and born == clock.born(pid)


def last_word(path: Path) -> str | None:
    """What SIGTERM's handler (`recording.last_word`) wrote behind the end of the trace; None where it did not come."""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        _, end, tail = file.read().rpartition(OPEN_END)
    text = tail.decode("utf-8", "replace")
    return text if end and _FRAME.search(text) else None


def place_in(text: str) -> Args | None:
    """The innermost place in the user's files of such a word."""
    for file, line, function in _FRAME.findall(text):
        if not is_installed(file):
            return {"file": file, "line": int(line), "function": function}
    return None
