"""The report as text, for a terminal and for the log of a CI job."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Literal

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from coldstep._util.figures import percent
from coldstep.model import Trace
from coldstep.vocabulary import Vocabulary
from coldstep_viewers.report.answers import Head
from coldstep_viewers.report.document import (
    Block,
    Cell,
    Document,
    Item,
    Line,
    Paragraph,
    Part,
    Share,
    Style,
    Table,
    Whole,
)
from coldstep_viewers.report.sections import document
from coldstep_viewers.safe_text import plain

_LOOKS: dict[Style, str] = {
    "": "",
    "strong": "bold",
    "dim": "dim",
    "aside": "italic",
    "code": "cyan",
    "cause": "yellow",
    "advice": "green",
    "error": "red",
}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHADES = "█▓▒"  # a step's three largest phases; what is left is drawn with the next two
_SMALLER, _NAMELESS = "░", "·"
_GLUE = "\ue000"  # a space at which no line is broken, until the very end; nothing in a trace can hold it
_MAX_CHARS = 2_000
_BAR_CHARS = 12
_AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False, "legacy_windows": False}


def render(trace: Trace, width: int = 100, colour: bool = False, every: bool = False) -> str:
    """The report, with `every` row by itself if that is asked for.

    `colour` adds a terminal's escape codes; nothing in the trace can add others.
    """
    out = io.StringIO()
    system: Literal["standard"] | None = "standard" if colour else None
    console = Console(
        file=out, width=width, force_terminal=colour, color_system=system, no_color=not colour, **_AS_IT_IS
    )
    for part in _written(document(trace, every)):
        console.print(part)
    lines = out.getvalue().replace(_GLUE, " ").rstrip("\n").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _written(shown: Document) -> Iterator[RenderableType]:
    yield from (_text(clause, "bold") for clause in shown.headline)
    yield _text(" · ".join(shown.about), "dim")
    yield from ("", *_answers(shown.head))
    was_line = False
    for section in shown.sections:
        only = section.only if shown.shortened else None
        if only is None or not was_line:
            yield ""
        if only is not None:
            yield _text(f"{section.title}: ", "bold").append_text(_line(only))
        else:
            yield _text(section.title, "bold")
            yield from (Padding(_part(part, shown.vocabulary), (0, 0, 0, 2)) for part in section.parts)
        was_line = only is not None
    if shown.shortened:
        yield from ("", _text(shown.shortened, "italic"))
    if shown.explained:
        yield _text(shown.explained, "italic")


def _answers(shown: Head) -> Iterator[RenderableType]:
    """What to change, or that nothing needs it."""
    yield from (_text(line, "yellow") for line in shown.blind)
    yield _text(shown.title, "bold")
    grid = _grid(">>*")
    for entry in shown.entries:
        grid.add_row(_text(f"  {entry.number}"), _text(entry.cost, "bold"), _text(entry.text, "bold"))
        if entry.place:
            line = _text(entry.place)
            grid.add_row("", "", line.append_text(_text(f"   {entry.code}" if entry.code else "", "cyan")))
        for sentence in entry.change:
            grid.add_row("", "", _text(sentence, "green"))
    if shown.entries:
        yield grid
    if shown.rest:
        yield _text(shown.rest, "dim")


# --- the parts of a section ---------------------------------------------------------------------------------------


def _part(part: Part, vocabulary: Vocabulary) -> RenderableType:
    if isinstance(part, Paragraph):
        return Padding(_line(part.line), (0, 0, 0, part.indent))
    if isinstance(part, Item):
        grid = Grid.grid(padding=(0, 1, 0, 0))
        grid.add_row("-", _line(part.line))
        return grid
    return _block(part) if isinstance(part, Block) else _table(part, vocabulary)


def _block(block: Block) -> RenderableType:
    grid = _grid("<*")
    for label, line in block.facts:
        grid.add_row(_text(f"  {label}", "dim"), _line(line))
    both = Grid.grid()
    both.add_row(_line(block.title))
    both.add_row(grid)
    return both


def _table(table: Table, vocabulary: Vocabulary) -> RenderableType:
    grid = _grid(table.columns)
    for row in table.rows:
        grid.add_row(*(cell for each in row for cell in _cells(each, vocabulary)))
    return grid


def _cells(cell: Cell, vocabulary: Vocabulary) -> Iterator[Text]:
    """A cell; a whole takes two, its bar and the legend of it."""
    if isinstance(cell, Share):
        yield _bar(cell, vocabulary)
    elif isinstance(cell, Whole):
        yield from _bar_and_legend(cell, vocabulary)
    else:
        yield _line(cell)


def _bar(cell: Share, vocabulary: Vocabulary) -> Text:
    eighths = max(1, round(cell.share * _BAR_CHARS * 8))
    bar = _text("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), vocabulary.colour(cell.phase))
    if cell.note:
        bar.pad_right(_BAR_CHARS + 2 - len(bar))
        bar.append_text(_line(cell.note))
    return bar


def _bar_and_legend(whole: Whole, vocabulary: Vocabulary) -> tuple[Text, Text]:
    wall = sum(piece.ns for piece in whole.pieces)
    shades = [*_SHADES[: len(whole.pieces) - 2], _SMALLER, _NAMELESS]
    bar, legend = Text(), Text()
    reached = cells = 0
    for piece, shade in zip(whole.pieces, shades, strict=True):
        reached += piece.ns
        new = round(_BAR_CHARS * reached / wall) - cells if wall else 0
        cells += new
        style = vocabulary.colour(piece.phase) if piece.phase else ""
        bar.append(shade * new, style)
        if wall and piece.named:
            legend.append(", " if legend else "")
            legend.append(shade, style)
            legend.append(f" {plain(piece.label)} {percent(piece.ns / wall)}".replace(" ", _GLUE))
    if whole.note:
        legend.append_text(_text(f"; {whole.note}", "italic"))
    return bar, legend


def _grid(columns: str) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    for column in columns:
        grid.add_column(
            justify="right" if column == ">" else "left",
            no_wrap=column in "<>",
            overflow="fold" if column in "~*" else "ellipsis",
            ratio=1 if column == "*" else None,
            min_width=_BAR_CHARS if column == "*" else None,
        )
    return grid


def _line(line: Line) -> Text:
    text = Text()
    for span in line:
        text.append_text(_text(span.text, _LOOKS[span.style]))
    return text


def _text(text: str, style: str = "") -> Text:
    return Text(plain(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"), style)
