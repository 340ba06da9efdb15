"""The errors of our own: what they have in common, and the one that a person sees in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, pairwise
from types import CodeType
from typing import Any

_LINE_CHARS = 500
_MOST_ARGUMENTS = 100  # of a signal handler that are looked at


class ColdstepError(Exception):
    """Every error of coldstep's own is one, beside the built-in error that it is as well."""


class TraceError(ColdstepError, ValueError):
    """A file that is no readable trace, or a trace that cannot be made; the message has the remedy."""


def text_of(error: BaseException | None) -> str:
    """An error's text; empty where it has none: `__str__` may be the program's own, and may raise."""
    try:
        return str(error)
    except our_errors():
        return ""


def first_line(error: BaseException | None) -> str:
    """An error in one line: its kind, and how its text begins."""
    lines = text_of(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:_LINE_CHARS]}" if lines else type(error).__name__


def interrupts(error: BaseException) -> bool:
    """Whether a signal handler of the program's raised this error: it only passes through us, and must go on.

    Python calls a handler with the signal's number and the frame that it interrupts, which is then its caller's.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        handler = at.tb_next.tb_frame
        values: list[Any] = list(handler.f_locals.values())
        rows = (each for each in (values, *values) if type(each) in (list, tuple))
        pairs = chain.from_iterable(islice(pairwise(each), _MOST_ARGUMENTS) for each in rows)
        if any(given is at.tb_frame and _handles(handler.f_code, number) for number, given in pairs):
            return True
        at = at.tb_next
    return False


def our_errors() -> tuple[type[Exception], ...]:
    """What `except our_errors():` catches, on a thread of the program: each Exception, but none that `interrupts`."""
    error = sys.exc_info()[1]
    return () if error is not None and interrupts(error) else (Exception,)


def _handles(code: CodeType, number: object) -> bool:
    """Whether a signal of that number calls this code."""
    import signal

    if type(number) is not int or number not in signal.valid_signals():
        return False
    handler: Any = signal.getsignal(number)
    while isinstance(handler, partial):
        handler = handler.func
    return any(getattr(each, "__code__", None) is code for each in (handler, getattr(handler, "__call__", None)))  # noqa: B004


class contained:
    """Around coldstep's own code: an Exception ends here, unless it `interrupts`; all that it does is `then(error)`."""

    def __init__(self, then: Callable[[Exception], object] | None = None) -> None:
        self._then = then

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception) or interrupts(error):
            return False
        if self._then is not None:
            self._then(error)
        return True


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
