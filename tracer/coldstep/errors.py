"""The errors of our own: what they have in common, and the one that a person sees in one line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LINE_CHARS = 500


class ColdstepError(Exception):
    """Every error of coldstep's own is one, beside the built-in error that it is as well."""


class TraceError(ColdstepError, ValueError):
    """A file that is no readable trace, or a trace that cannot be made; the message says what to do."""


def first_line(error: BaseException | None) -> str:
    """An error in one line: its kind, and how its text begins."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:_LINE_CHARS]}" if lines else type(error).__name__


def refuse_to_replace(inputs: Iterable[str], out: str) -> None:
    """Raise TraceError where `out` is one of the files that are read, by whatever name."""
    if not os.path.exists(out):
        return
    for path in inputs:
        if os.path.exists(path) and os.path.samefile(path, out):
            raise TraceError(f"{out} is read and cannot be written to as well: give the output another name")


@contextmanager
def damaged(path: object) -> Iterator[None]:
    """Around what makes sense of a file: whatever does not make any becomes a TraceError."""
    try:
        yield
    except TraceError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is damaged: {type(error).__name__}: {error}"[:1000]) from error
