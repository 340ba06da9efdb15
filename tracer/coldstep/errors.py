"""The error that a person sees in one line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class TraceError(ValueError):
    """A file that is no readable trace, or a trace that cannot be made; the message says what to do."""


def refuse_to_replace(inputs: Iterable[str], out: str) -> None:
    """Raise TraceError where `out` is one of the files that are read, by whatever name."""
    for path in inputs:
        if os.path.exists(out) and os.path.exists(path) and os.path.samefile(path, out):
            raise TraceError(f"{out} is read and cannot be written to as well: give the output another name")


@contextmanager
def damaged(path: object) -> Iterator[None]:
    """Around what makes sense of a file: whatever does not make any becomes a TraceError."""
    try:
        yield
    except TraceError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is damaged: {type(error).__name__}: {error}"[:1000]) from error
