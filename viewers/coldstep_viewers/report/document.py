"""A report as data: sections of lines, tables and blocks. Each format writes the same document in its own way.

Texts are as the trace has them: whoever writes them for a terminal, a page or Markdown escapes them for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from coldstep.vocabulary import Vocabulary
from coldstep_viewers.report.answers import Head

Style = Literal["", "strong", "dim", "aside", "code", "cause", "advice", "error"]
"""The kind of a piece of text: each format chooses how that looks."""


@dataclass(slots=True, frozen=True)
class Span:
    """A piece of a line."""

    text: str
    style: Style = ""


Line: TypeAlias = tuple[Span, ...]


@dataclass(slots=True, frozen=True)
class Paragraph:
    """A line by itself; without a span, a gap."""

    line: Line
    indent: int = 0


@dataclass(slots=True, frozen=True)
class Item:
    """One of several lines that are alike."""

    line: Line


@dataclass(slots=True, frozen=True)
class Block:
    """One thing, and the facts on it: each a label, or "" where it goes on, and a line."""

    title: Line
    facts: list[tuple[str, Line]]


@dataclass(slots=True, frozen=True)
class Share:
    """How much of a whole a phase is, with a note."""

    share: float
    phase: str = ""
    note: Line = ()


@dataclass(slots=True, frozen=True)
class Piece:
    """A part of a whole; whether it is small enough to go unnamed."""

    label: str
    ns: int
    phase: str
    named: bool


@dataclass(slots=True, frozen=True)
class Whole:
    """The parts of a whole: the largest three, the others, the unattributed time; and a note."""

    pieces: list[Piece]
    note: str = ""


Cell: TypeAlias = Line | Share | Whole


@dataclass(slots=True, frozen=True)
class Table:
    """Rows of cells."""

    columns: str
    """Of each column: `<` or `>` where its texts stand, left or right; `~` where these may be folded; `*` for the one
    that takes what room there is."""
    rows: list[list[Cell]]


Part: TypeAlias = Paragraph | Item | Block | Table
GAP = Paragraph(())


@dataclass(slots=True, frozen=True)
class Section:
    """A title, and what stands below it."""

    key: str
    """By what a format knows it that has something of its own to show there: `time`, `steps`, `memory`."""
    title: str
    parts: list[Part]

    @property
    def only(self) -> Line | None:
        """Its line, where it has but one: that may stand beside the title."""
        first = self.parts[0]
        return first.line if len(self.parts) == 1 and isinstance(first, Paragraph) else None


@dataclass(slots=True, frozen=True)
class Document:
    """The headline, the command and its versions, the answer, and the sections that are not empty."""

    headline: list[str]
    about: list[str]
    head: Head
    sections: list[Section]
    """`below`, `ranks`, `time` of each process, `steps`, `ready`, `recompiles`, `breaks`, `builds`, `autotuning`,
    `caches`, `inside`, `memory`, `findings`, `ended`, `unobserved`."""
    vocabulary: Vocabulary
    shortened: str = ""
    """That the document is shortened, and how to get the whole."""
    explained: str = ""
    """The command that explains the causes that are named."""


def line(text: str, style: Style = "") -> Line:
    """A line of one style."""
    return (Span(text, style),)


def paragraph(text: str, style: Style = "", indent: int = 0) -> Paragraph:
    """The same as a part of a section."""
    return Paragraph(line(text, style), indent)
