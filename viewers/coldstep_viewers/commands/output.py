"""How a command prints, and how it gives up. Standard library only: `coldstep run` does so in the user's process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NoReturn

from coldstep._util.stderr import say
from coldstep.errors import ColdstepError
from coldstep_viewers.safe_text import inert, plain


def echo(text: str, *, commands: bool = False) -> bool:
    """Print `text`, as far as the output's encoding has it; lines that a CI system's runner would obey only as
    `commands`. Returns whether anybody still reads."""
    return echo_pieces((text if commands else inert(text),))


def echo_pieces(texts: Iterable[str]) -> bool:
    """Print a text that comes in pieces, as `echo` does."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        for text in texts:
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        print(flush=True)
    except OSError as error:
        # what is left in the buffer goes nowhere, or Python would complain at its end, and with an exit code of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader that has seen enough is no error
            fail(f"cannot write the output: {error.strerror}")
        return False
    return True


def fail(text: str) -> NoReturn:
    """Print the reason on stderr, and exit with 2."""
    say(plain(text))
    sys.exit(2)


class or_fail:
    """Around what may not come about: an error of coldstep's own, and `what` the system refuses where that is named,
    become a line and exit code 2."""

    def __init__(self, what: str = "") -> None:
        self._what = what

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ColdstepError):
            fail(str(error))
        if isinstance(error, OSError) and self._what:
            fail(f"{self._what}: {error.strerror}")
