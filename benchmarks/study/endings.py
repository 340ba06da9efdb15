"""How a process of a study ended: by itself, out of memory, at a limit of time, or by an error; and its last words."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Python: "  File "/project/benchmarks/stack_wars/train_jax.py", line 37 in prepare"
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
# TensorFlow 2.21: "I0000 00:00:1795503160.905781 18328 port.cc:153] oneDNN custom operations are on. …"
# coldstep: "coldstep: run.pftrace: step: first step 12.4 s, 81 % XLA compilation; settled at step 1"
_REMARK = re.compile(r"[IW]\d{4} |WARNING: All log messages before absl|coldstep: ")
_OUT_OF_MEMORY = (
    "bad_alloc",
    "Unable to allocate",
    "Out of memory",
    "out of memory",
    "RESOURCE_EXHAUSTED",
    "MemoryError",
    "allocate memory",
)


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a process."""

    ended: str
    """ok, out_of_memory, too_long, failed."""
    why: str
    """What ended it, where it did not end by itself."""
    output: str
    """What it printed."""


def run(words: Sequence[str], environment: Mapping[str, str], limit_s: int) -> Ending:
    """Run a process of this repository to its end, or to the limit."""
    try:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=os.environ | environment | {"PYTHONFAULTHANDLER": "1"},
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return Ending("too_long", f"it had not ended after {limit_s} s", "")
    return of(done)


def of(done: subprocess.CompletedProcess[str]) -> Ending:
    """What became of one that ended by itself, or was killed by another."""
    if not done.returncode:
        return Ending("ok", "", done.stdout)
    why = _killed(done) if done.returncode < 0 else _last_words(done.stderr)
    is_full = any(words in done.stderr for words in _OUT_OF_MEMORY)
    return Ending("out_of_memory" if is_full else "failed", why, done.stdout)


def _killed(done: subprocess.CompletedProcess[str]) -> str:
    """Which signal, where in the study's own code, and what was printed before."""
    before, _, threads = done.stderr.partition("Fatal Python error: ")
    _, _, current = threads.partition("Current thread ")
    ours = (f"{ROOT}/benchmarks/", f"{ROOT}/examples/")
    own = next((frame for frame in _FRAME.finditer(current) if frame[1].startswith(ours)), None)
    where = f" in {own[3]} ({Path(own[1]).name}:{own[2]})" if own else ""
    last = _last_words(before)
    return f"killed by {signal.Signals(-done.returncode).name}{where}{f': {last}' if last else ''}"


def _last_words(text: str) -> str:
    """The last line that is no remark of a library's log."""
    lines = (line for line in reversed(text.splitlines()) if line.strip() and not _REMARK.match(line))
    return next(lines, "")
