"""Reads a file in blocks of whole lines in UTF-8, without colours: of UTF-16 with its mark, of lines that a carriage
return ends, of lines that a terminal has wrapped."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from io import BufferedReader

from coldstep.logs.wrapped import Wrapped, width_of

PIECE_BYTES = 1 << 20
"""That are read at once, and of one line that are looked at."""

_MARKS_OF_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# GitHub: "\x1b[36mtext"
# Ghostty: "\x1b]8;;https://example.org\x07"
_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|\(B)")


def is_utf16(begin: bytes) -> bool:
    """Whether a file that begins so is in UTF-16, as PowerShell's `>` writes it."""
    return begin.startswith(_MARKS_OF_UTF16)


def blocks(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """The whole lines of each piece that is read, and its size; of a line that is too long, its beginning."""
    begun, terminal, is_first = b"", None, True
    for size, piece in _pieces(file):
        begun += piece
        end = begun.rfind(b"\n") + 1 or begun.rfind(b"\r") + 1
        block, begun = _plain(begun[:end]), begun[end:][:PIECE_BYTES]
        if is_first and block:
            is_first, terminal = False, _terminal(block)
        yield size, _rejoined(terminal, block) if terminal is not None else block
    rest = _plain(begun)
    if terminal is None and is_first and rest:
        terminal = _terminal(rest)
    if terminal is not None:
        rest = _rejoined(terminal, rest) + terminal.end().encode() + (b"" if rest else b"\n")
    yield 0, rest


def _pieces(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """The file in UTF-8, by pieces with their sizes: of a pipe, what it holds."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace") if is_utf16(file.peek(2)[:2]) else None
    while piece := file.read1(PIECE_BYTES):
        yield len(piece), decoder.decode(piece).encode("utf-8", "replace") if decoder is not None else piece


def _plain(block: bytes) -> bytes:
    if b"\x1b" in block:
        block = _ANSI.sub(b"", block)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block


def _lines(block: bytes) -> list[str]:
    return block.decode("utf-8", "replace").removesuffix("\n").split("\n")


def _terminal(block: bytes) -> Wrapped | None:
    width = width_of(_lines(block))
    return Wrapped(*width) if width is not None else None


def _rejoined(terminal: Wrapped, block: bytes) -> bytes:
    return "".join(f"{line}\n" for line in terminal.take(_lines(block))).encode() if block else b""
