"""The remedy that is made from a row of the table for one finding.

A name, an expression or a value of a trace comes from anybody: it enters `code` or `environment` only if it parses by
itself as a name, an attribute, a subscript or a literal. Else the remedy has its text alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import TypeVar

from coldstep.analysis.remedies.edits import Call, is_plain, statements, takes_lines, with_keyword
from coldstep.analysis.remedies.row import Row
from coldstep.model import Finding, GraphBreak, Location, Put, Recompile, Remedy

Mended = TypeVar("Mended", Finding, GraphBreak, Recompile)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user's code may be changed, as far as the trace shows it."""

    location: Location | None = None
    """The line of the first call; None where it is not known, or where it is a library's."""
    call: Call | None = None
    """The argument in that line."""
    only: bool = True
    """Whether no other line calls the function."""
    decorator: str = ""
    """The line right above the function's definition, where that is a decorator."""
    decorated: Location | None = None
    """Where that line is."""
    line: str = ""
    """The text of the line of `location`."""
    lines: int = 1
    """How many lines from there on are written anew, where code is put instead."""


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Case:
    """One finding, as far as a row of the table needs it."""

    id: str
    """Stable between runs of one program: "torch.shape:tokens"."""
    names: Mapping[str, str]
    """The texts to fill in, by name."""
    place: Place = NOWHERE
    """Where its code goes."""


def remedies(row: Row, case: Case) -> list[Remedy]:
    """What to do in this case: the row's text, and one more where variables do without an edit."""
    put: Put = "above"
    place, code, location = case.place, "", case.place.location
    if row.above and (place.only or not row.each):
        code = _code(row.above, case)
    if row.keyword and all(case.names[name] for name in _names(row.keyword)):
        put, location = "instead", place.decorated
        code = with_keyword(place.decorator, row.keyword.format_map(case.names))
    if row.instead:
        put, code = "instead", row.instead.format_map(case.names) if location is not None else ""
    if row.over or row.under:
        put, code = ("above", row.over) if row.over else ("below", row.under)
        code = code.format_map(case.names) if location is not None and takes_lines(place.line) else ""
    location = location if code else None
    lines = place.lines if put == "instead" and code and not row.keyword else 1
    words = row.text.format_map(case.names)
    rows = [Remedy(case.id, row.how, words, {}, code, put, location, row.changes, lines)]
    if environment := _environment(row, case):
        words = f"Without an edit: set {_assigned(environment)}."
        rows.append(Remedy(f"{case.id}:environment", "environment", words, environment, "", "above", None, "nothing"))
    return rows


def _names(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name]


def advice(rows: Iterable[Remedy]) -> str:
    """The sentences of remedies, in one text."""
    return " ".join(sentence for row in rows for sentence in sentences(row))


def mended(row: Mended, rows: list[Remedy]) -> Mended:
    """A finding, or what one is made of, with these remedies, and their sentences as its advice."""
    row.remedies, row.advice = rows, advice(rows)
    return row


def sentences(row: Remedy) -> Iterator[str]:
    """A remedy's text, and the code that does it."""
    yield row.text
    if row.location is None:
        return
    changed = [_CHANGES[row.changes]] if row.changes != "nothing" else []
    at, last = f"({row.location.file}:{row.location.line})", row.location.line + row.lines - 1
    if row.put == "instead" and "\n" in row.code:
        code = "".join(f"\n    {line}" for line in row.code.splitlines())
        lines = f"lines {row.location.line}-{last}" if row.lines > 1 else f"line {last}"
        yield from (*changed, f"Write this instead of {lines} {at}:{code}")
        return
    yield from (f"{_WHERE[row.put]} {at}: {'; '.join(row.code.splitlines())}", *changed)


def _assigned(environment: Mapping[str, str]) -> str:
    pairs = ((name, value if value.isalnum() else f'"{value}"') for name, value in environment.items())
    return " ".join(f"{name}={value}" for name, value in pairs)


_WHERE = {"above": "Put above", "below": "Put below", "instead": "Write there"}
_CHANGES = {
    "rounding": "It changes results within rounding.",
    "numerics": "It changes the results: compare the losses.",
    "data": "It changes which data is used.",
}
"""What code that is given does besides."""


def _code(template: str, case: Case) -> str:
    """The template filled in; "" where any of it is not plain, or the line takes none above it."""
    call, names = case.place.call, _names(template)
    if not takes_lines(case.place.line):
        return ""
    if case.place.location is None or ("expression" in names and (call is None or not call.takes_lines_above)):
        return ""
    expression = call.expression if call is not None else ""
    filled = {key: expression if key == "expression" else case.names[key] for key in names}
    whole = [expression + value if key in ("rest", "like") else value for key, value in filled.items()]
    if filled.get("like") == "" or not all(map(is_plain, whole)):
        return ""
    made = template.format_map(filled)
    return made if call is None or all(map(call.may_assign, _targets(made, expression))) else ""


def _targets(code: str, expression: str) -> Iterator[str]:
    """What statements assign: names, and the argument."""
    for each in statements(code):
        for target in each.targets if isinstance(each, ast.Assign) else ():
            if isinstance(target, ast.Name) or (expression and ast.unparse(target).startswith(expression)):
                yield ast.unparse(target)


def _environment(row: Row, case: Case) -> dict[str, str]:
    filled = {}
    for name, template in row.environment.items():
        if not all(_is_safe(case.names[key]) for key in _names(template)):
            return {}
        filled[name] = template.format_map(case.names)
    return filled


def _is_safe(value: str) -> bool:
    """Whether each of the values, which commas divide, is plain."""
    sides = (each.partition(":") for each in value.split(","))
    return all(is_plain(name) and (dimension.isdecimal() or not colon) for name, colon, dimension in sides)
