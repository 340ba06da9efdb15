"""The report in Markdown, for an issue, a pull request or the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from coldstep._util.figures import count, percent
from coldstep.model import Trace
from coldstep_viewers.report.answers import Head
from coldstep_viewers.report.document import Block, Cell, Document, Item, Line, Part, Share, Span, Table, Whole
from coldstep_viewers.report.sections import document
from coldstep_viewers.safe_text import flat, plain
from coldstep_viewers.safe_text import markdown as text

_MAX_PARTS = 40  # of a section


def render(trace: Trace, every: bool = False) -> str:
    """The report, with `every` row by itself if that is asked for; it ends without a line break."""
    return "\n".join(_lines(document(trace, every)))


def _lines(shown: Document) -> Iterator[str]:
    yield from (f"**{text(clause)}**  " for clause in shown.headline)
    yield text(" · ".join(shown.about))
    yield from ("", *_answers(shown.head))
    for section in shown.sections:
        yield from ("", f"### {text(section.title)}")
        yield from _parts(section.parts[:_MAX_PARTS])
        if len(section.parts) > _MAX_PARTS:
            yield from ("", f"and {count(len(section.parts) - _MAX_PARTS, 'more part')}; --format json has them all.")
    if shown.shortened:
        yield from ("", text(shown.shortened))
    if shown.explained:
        words, _, command = shown.explained.rpartition(": ")
        yield from ("", f"{text(words)}: {_code(command)}")


def _answers(shown: Head) -> Iterator[str]:
    yield from (f"> {text(line)}" for line in shown.blind)
    yield f"### {text(shown.title)}"
    yield ""
    for entry in shown.entries:
        paid = f" ({entry.cost})" if entry.cost else ""
        yield f"{entry.number}. **{text(entry.text)}**{paid}"
        if entry.place:
            line = f": {_code(entry.code)}" if entry.code else ""
            yield f"   {_code(entry.place)}{line}"
        for sentence in entry.change:
            words, *code = plain(sentence).split("\n")
            yield f"   {text(words)}"
            if code:  # which no line of it can end: it is further in than what ends it may be
                yield from ("   ~~~python", *(f"   {line}" for line in code), "   ~~~")
    if shown.rest:
        yield from ("", text(shown.rest))


def _parts(parts: Iterable[Part]) -> Iterator[str]:
    """The parts with an empty line between them, but for items, which are one list."""
    for kind, group in groupby(parts, type):
        if kind is Item:
            yield ""
        for part in group:
            if isinstance(part, Item):
                yield f"- {_spans(part.line)}"
            elif isinstance(part, Table):
                yield from ("", *_table(part.rows))
            elif isinstance(part, Block):
                yield from ("", _spans(part.title), "", *_facts(part.facts))
            elif part.line:
                yield from ("", _spans(part.line))


def _facts(facts: Sequence[tuple[str, Line]]) -> Iterator[str]:
    """A label and its lines are an item; lines without a label go on with it."""
    for label, line in facts:
        yield f"- {text(label)}: {_spans(line)}" if label else f"  {_spans(line)}"


def _table(rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    most = max(map(len, rows))
    yield f"| {' | '.join(' ' for _ in range(most))} |"
    yield f"| {' | '.join('---' for _ in range(most))} |"
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in rows)


def _cell(cell: Cell) -> str:
    if isinstance(cell, Share):
        return _spans(cell.note)
    if isinstance(cell, Whole):
        wall = sum(piece.ns for piece in cell.pieces)
        named = [f"{piece.label} {percent(piece.ns / wall)}" for piece in cell.pieces if wall and piece.named]
        return text("; ".join(filter(None, (", ".join(named), cell.note))))
    return _spans(cell)


def _spans(line: Line) -> str:
    return "".join(map(_span, line)).strip()


def _span(span: Span) -> str:
    words = " ".join(flat(span.text).split())
    before = " " if span.text.startswith(" ") else ""
    if not words or span.style not in ("strong", "code"):
        return before + text(words)
    return before + (_code(words) if span.style == "code" else f"**{text(words)}**")


def _code(words: str) -> str:
    """The same as code, or as text where it holds a backtick."""
    return f"`{flat(words)}`" if "`" not in words else text(words)
