"""What each pair is started with: the interpreter that has its stack (torch_xla is in an environment of its own, for it
wants another PyTorch), and how much memory it may ask for."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.stack_wars import STACKS

from coldstep.ahead.fit import limit

ROOT = Path(__file__).parents[2]


def interpreters(stacks: Iterable[str]) -> dict[str, str]:
    """For each stack that is installed, an interpreter that has it."""
    found: dict[str, str] = {}
    packages = sorted({STACKS[stack] for stack in stacks})
    ask = f"import importlib.util as u; print(*(n for n in {packages} if u.find_spec(n)))"
    for python in dict.fromkeys((str(ROOT / ".venv/bin/python"), str(ROOT / ".venv-xla/bin/python"), sys.executable)):
        if not Path(python).exists():
            continue
        has = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split()
        found |= {stack: python for stack in stacks if STACKS[stack] in has and stack not in found}
    return found


def memory(words: str) -> int:
    """A size on the command line, in bytes."""
    try:
        return limit(words) or 0
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
