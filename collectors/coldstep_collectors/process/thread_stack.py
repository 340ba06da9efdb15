"""The stack of another thread, read at one instant."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, compress, islice, repeat, starmap, takewhile
from operator import attrgetter, methodcaller
from types import CodeType
from typing import Any

_NEVER = object()  # given by no call
_CODE_AND_INSTRUCTION = attrgetter("f_code", "f_lasti")


def stack_of(thread: int) -> list[tuple[CodeType, int]]:
    """The code of each frame of the thread with this identity, and at which instruction it is, innermost first; empty
    where it has ended.

    No other thread runs meanwhile, and no frame is kept. Up to Python 3.11, a frame that is made may start the garbage
    collector, whose finalizers let other threads run: what `f_back` gives then is freed memory, and the process dies.
    So nothing in here is Python code, between whose instructions threads change, and the collector is off.
    """
    read: list[Any] = []
    try:
        read.extend(
            chain(
                _once(gc.isenabled),
                _once(gc.disable),
                map(
                    _CODE_AND_INSTRUCTION,
                    takewhile(bool, accumulate(chain(_innermost(thread), repeat("f_back")), getattr)),
                ),
                starmap(gc.enable, compress([()], read)),  # where it was enabled, which is the first that was read
            )
        )
    except BaseException:
        if read and read[0]:
            gc.enable()
        raise
    return [each for each in read[1:] if each is not None]


def line_of(code: CodeType, instruction: int) -> int:
    """The line of an instruction of `stack_of`: to look up those of all frames there would take five times as long as
    the rest, while no other thread runs."""
    [line, *_] = next(islice(code.co_positions(), max(0, instruction) // 2, None), (None,))
    return line or code.co_firstlineno


def _innermost(thread: int) -> Iterator[Any]:
    return map(methodcaller("get", thread), _once(sys._current_frames))


def _once(call: Callable[[], Any]) -> Iterator[Any]:
    """What a call gives, called when it is asked for."""
    return islice(iter(call, _NEVER), 1)
