"""Checks whether the last payload of a file of PyTorch's structured trace is whole: its head holds its checksum."""

from __future__ import annotations

import hashlib
import re

_MARK = b'"has_payload": "'
# PyTorch 2.13: "V1121 07:47:53.361000 9 torch/_dynamo/utils.py:2350] {"chromium_event": {}, "frame_id": 0,
# "frame_compile_id": 0, "has_payload": "2bbc0e3f8235ee2cd515658c44615977"}"
_HEAD = re.compile(rb'^[VIWEF]\d{4} [^\n]*?(?:"has_payload": "([0-9a-f]{32})"[^\n]*)?$', re.MULTILINE)
# Python: "Traceback (most recent call last):"
_FOREIGN = re.compile(rb"^(?!\t|\Z)", re.MULTILINE)


class Payload:
    """The last payload of a file, which is given in pieces that end where a line ends."""

    def __init__(self) -> None:
        self._sum: bytes | None = None
        self._hash = hashlib.md5(usedforsecurity=False)
        self._between = b""
        self._held = False

    @property
    def is_known(self) -> bool:
        """Whether the file ends in a payload, and its checksum shows how it ends."""
        return self._sum is not None and (self._held or self._is_whole())

    @property
    def is_cut(self) -> bool:
        """Whether its end is missing."""
        return not self._is_whole()

    def take(self, block: bytes) -> None:
        """The next lines of the file."""
        if self._sum is None and _MARK not in block:
            return
        at = 0
        block = block.replace(b"\r\n", b"\n")
        for head in _HEAD.finditer(block):
            self._add(block[at : head.start()])
            self._held |= self._is_whole()
            self._sum, self._hash, self._between = head[1], hashlib.md5(usedforsecurity=False), b""
            at = head.end() + 1
        self._add(block[at:])

    def _add(self, lines: bytes) -> None:
        if self._sum is None or not lines:
            return
        if _FOREIGN.search(lines):
            self._sum = None  # it ended before these
            return
        text = lines.replace(b"\n\t", b"\n").removeprefix(b"\t")
        self._hash.update(self._between + text.removesuffix(b"\n"))
        self._between = b"\n" if lines.endswith(b"\n") else b""

    def _is_whole(self) -> bool:
        return self._sum is not None and self._hash.hexdigest().encode() == self._sum
