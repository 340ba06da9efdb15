"""How a command prints, and how it gives up. Standard library only: `coldstep run` does so in the user's process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

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


def echo_json(document: Any) -> None:
    """Print a document, indented where a person reads it."""
    echo(json.dumps(document, indent=2 if sys.stdout.isatty() else None))


def show(document: Callable[[], Any], lines: Callable[[], Iterable[str]], wanted: str) -> None:
    """Print the document where JSON is `wanted`, else the lines."""
    if wanted == "json":
        echo_json(document())
    else:
        echo(plain("\n".join(lines())))


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


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports of what only `pip install coldstep[extra]` brings: one line that names it, and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"this needs {error.name}, which is not installed: pip install 'coldstep[{extra}]'")


def give_up(lost: Sequence[str]) -> NoReturn:
    """Nothing could be read: a line for each, and exit code 2."""
    for text in lost[:-1]:
        say(plain(text))
    fail(lost[-1])


def say_left_out(lost: Iterable[str]) -> None:
    """Say of each what could not be read, while the others were."""
    for text in lost:
        say(plain(f"left out: {text}"))


def exit_with(lost: Sequence[str]) -> None:
    """Exit code 2 where anything was left out."""
    if lost:
        sys.exit(2)
