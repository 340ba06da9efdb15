"""Finds, among the lines of one process, those that a second handler has written again: equal text at an equal time."""

from __future__ import annotations

import re
from collections import deque

from coldstep._util.slotted import slotted
from coldstep.logs.prefix import Carried

_REMEMBERED = 4096  # lines
# Pytest: "------------------------------ Captured log call ------------------------------"
_CAPTURED_LOG = re.compile(r"-{3,} Captured log (?:setup|call|teardown) -{3,}")
SECTION = b"- Captured "
"""In the lines that begin a section of pytest's: in that of the log stands what the others hold, again."""
# PyTorch 2.9, 2.13: "[0/1] [__recompiles] Recompiling function train_step in /repo/train.py:2"
# PyTorch 2.9, 2.13: "[0/8] torch._dynamo hit config.recompile_limit (8)"
_TAG = re.compile(r"(?:\[[^\]]{1,20}\] )?\[__\w+\] ?|\[\d+/\d+[^\]]{0,20}\] ")
_STRUCTURED = ("\t", '{"')  # of PyTorch's structured trace, in which equal records are records of their own
_SECOND = len("2026-11-21T07:47:53")


@slotted
class _Written:
    """A line that was kept."""

    text: str
    around: str
    logged: str
    tag: str
    begins: bool
    """Whether a message begins with it."""


class Twice:
    """The lines of one process, in their order."""

    def __init__(self) -> None:
        self._lines: deque[_Written] = deque(maxlen=_REMEMBERED)
        self._count = 0  # of the lines that were kept
        self._next: int | None = None
        """In a message that is there again: the number of the line that comes next."""
        self._section = 0  # where the sections of a test begin
        self._in_log: int | None = None
        """In pytest's section of a log: the number of the line from which on its own are looked for."""

    def begin_section(self, text: str) -> None:
        """A section of pytest's begins."""
        self._next = None
        if _CAPTURED_LOG.search(text) is not None:
            self._in_log = self._section
        else:
            self._section = self._count if self._in_log is not None else self._section
            self._in_log = None

    def is_again(self, carried: Carried, has_mark: bool) -> bool:
        """Whether a line was there before; `has_mark`: whether it is one that a message may begin with."""
        line = self._written(carried, has_mark)
        if not line.text or carried.text.startswith(_STRUCTURED):
            return False
        if self._next is not None and (known := self._at(self._next)) is not None and known.text == line.text:
            self._next += 1
            return True
        self._next = self._again(line) if has_mark else None
        if self._next is None:
            self._lines.append(line)
            self._count += 1
        return self._next is not None

    def _written(self, carried: Carried, has_mark: bool) -> _Written:
        match = _TAG.match(carried.text)
        tag, text = (match[0], carried.text[match.end() :].strip()) if match is not None else ("", carried.text.strip())
        head = (carried.around, carried.logged, tag)
        last = self._lines[-1] if self._lines and carried.is_stamped else None
        goes_on = last is not None and (last.around, last.logged, last.tag) == head
        goes_on |= carried.text.startswith(" ")  # as all lines of JAX's explanations but the first
        return _Written(text, *head, has_mark and not goes_on)

    def _at(self, number: int) -> _Written | None:
        at = number - self._count + len(self._lines)
        return self._lines[at] if 0 <= at < len(self._lines) else None

    def _again(self, line: _Written) -> int | None:
        """The number of the line that comes after the one that `line` repeats."""
        first = self._in_log if self._in_log is not None else self._latest()
        for number in range(max(first, self._count - len(self._lines)), self._count):
            if (known := self._at(number)) is not None and known.begins and _is_same(known, line):
                self._in_log = number + 1 if self._in_log is not None else None
                return number + 1
        return None

    def _latest(self) -> int:
        """The number of the line that the latest message begins with."""
        back = (number for number, line in enumerate(reversed(self._lines), 1) if line.begins)
        return self._count - next(back, 0)


def _is_same(known: _Written, line: _Written) -> bool:
    """Whether two handlers wrote these of one message: in one form at the same moment, or in two of which one may tell
    no time, or less of it."""
    if known.text != line.text or (known.tag and line.tag and known.tag != line.tag):
        return False
    if known.around == line.around:
        return known.logged == line.logged and bool(re.search(r"[.,]\d{3}", line.logged))
    times = {logged[:_SECOND] for logged in (known.logged, line.logged) if logged}
    return len(times) < 2 or len({time[-8:] for time in times}) == 1
