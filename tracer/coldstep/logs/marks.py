"""Finds the few lines of a log that may be for a reader, without looking at each of the others."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Iterator


class Marks:
    """Texts that the lines hold which are for somebody, however these lines are carried."""

    def __init__(self, marks: Iterable[bytes]) -> None:
        self._forms = tuple(dict.fromkeys(form for mark in marks for form in _forms(mark)))

    def lines(self, block: bytes, goes_on: Callable[[], bool]) -> Iterator[tuple[bytes, bool, bool]]:
        """Of whole lines, those with a mark, and those that follow one for as long as `goes_on()`: each with whether it
        has a mark, and whether it is the last of the block."""
        at = 0
        for start in (*sorted(self._starts(block)), len(block)):
            while at < start and goes_on():
                end = _end(block, at)
                yield block[at:end], False, end + 1 >= len(block)
                at = end + 1
            if start < len(block):
                end = _end(block, start)
                yield block[start:end], True, end + 1 >= len(block)
                at = end + 1

    def _starts(self, block: bytes) -> set[int]:
        starts = set()
        for form in self._forms:
            at = block.find(form)
            while at >= 0:
                starts.add(block.rfind(b"\n", 0, at) + 1)
                at = block.find(form, _end(block, at))
        return starts


def _end(block: bytes, at: int) -> int:
    end = block.find(b"\n", at)
    return end if end >= 0 else len(block)


def _forms(mark: bytes) -> Iterator[bytes]:
    """A mark as it is, and as JSON and HTML write it."""
    text = mark.decode()
    in_json = json.dumps(text)[1:-1]
    forms = (text, in_json, html.escape(text), html.escape(text).replace("&#x27;", "&#39;"), text.replace("\\", "\\\\"))
    escaped = (in_json.replace(char, f"\\u{ord(char):04x}") for char in "<>&'")
    yield from (form.encode() for form in dict.fromkeys((*forms, *escaped)))
