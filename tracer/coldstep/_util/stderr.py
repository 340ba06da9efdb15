"""Prints to stderr: one line at a time. A failure to print never fails the program."""

from __future__ import annotations

import sys

from coldstep.errors import contained


def say(text: str) -> None:
    """Print "coldstep: text" on stderr; nothing where there is none (print(file=None) would take stdout)."""
    if sys.stderr is not None:
        with contained():  # it may be closed, or somebody's own object
            print(f"coldstep: {text}", file=sys.stderr, flush=True)
