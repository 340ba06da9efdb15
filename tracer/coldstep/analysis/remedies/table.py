"""The remedy that is made from a row of the table for one finding.

A name, an expression or a value of a trace comes from anybody: it enters `code` or `environment` only if it parses by
itself as a name, an attribute, a subscript or a literal. Else the remedy has its text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from string import Formatter

from coldstep.analysis.remedies.edits import Call, is_plain, with_keyword
from coldstep.analysis.remedies.row import Row
from coldstep.model import Location, Put, Remedy


@dataclass(frozen=True, slots=True)
class Case:
    """One finding, as far as a row of the table needs it."""

    id: str
    """Stable between runs of one program: "torch.shape:tokens"."""
    names: Mapping[str, str]
    """The texts to fill in, by name."""
    location: Location | None = None
    """The user's line; None where it is not known, or where it is a library's."""
    call: Call | None = None
    """The call in that line, where the argument was found in it."""
    only: bool = True
    """Whether no other line calls it in another way."""
    decorator: str = ""
    """The line right above the function's definition."""
    decorated: Location | None = None
    """Where that line is."""


def remedies(row: Row, case: Case) -> list[Remedy]:
    """What to do in this case: the row's text, and one more where variables do without an edit."""
    put: Put = "above"
    code = ""
    if row.above and (case.only or not row.each):
        code = _code(row.above, case)
    location = case.location if code else None
    if row.keyword and case.decorated is not None and all(case.names[name] for name in _names(row.keyword)):
        put, code = "instead", with_keyword(case.decorator, row.keyword.format_map(case.names))
        location = case.decorated if code else None
    rows = [Remedy(case.id, row.how, row.text.format_map(case.names), {}, code, put, location, row.changes)]
    if environment := _environment(row, case):
        words = f"Without an edit: set {_assigned(environment)}."
        rows.append(Remedy(f"{case.id}:environment", "environment", words, environment, "", "above", None, "nothing"))
    return rows


def _names(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name]


def advice(rows: Iterable[Remedy]) -> str:
    """The sentences of remedies, in one text."""
    return " ".join(sentence for row in rows for sentence in sentences(row))


def sentences(row: Remedy) -> Iterator[str]:
    """A remedy's text, and the code that does it."""
    yield row.text
    if row.location is not None:
        where = "Put above" if row.put == "above" else "Write"
        at = "" if row.put == "above" else " there"
        yield f"{where}{at} ({row.location.file}:{row.location.line}): {'; '.join(row.code.splitlines())}"
        if row.changes != "nothing":
            yield _CHANGES[row.changes]


def _assigned(environment: Mapping[str, str]) -> str:
    pairs = ((name, value if value.isalnum() else f'"{value}"') for name, value in environment.items())
    return " ".join(f"{name}={value}" for name, value in pairs)


_CHANGES = {
    "rounding": "It changes results within rounding.",
    "numerics": "It changes the results: compare the losses.",
    "data": "It changes which data is used.",
}
"""What code that is given does besides."""


def _code(template: str, case: Case) -> str:
    """The template filled in; "" where any of it is not plain, or the line takes none above it."""
    if case.location is None or case.call is None or not case.call.takes_lines_above:
        return ""
    expression = case.call.expression
    filled = {"expression": expression} | {key: case.names[key] for key in _names(template) if key != "expression"}
    whole = [expression + value if key == "rest" else value for key, value in filled.items()]
    return template.format_map(filled) if all(map(is_plain, whole)) else ""


def _environment(row: Row, case: Case) -> dict[str, str]:
    filled = {}
    for name, template in row.environment.items():
        wanted = {key: value for key, value in case.names.items() if f"{{{key}" in template}
        if not all(map(_is_safe, wanted.values())):
            return {}
        filled[name] = template.format_map(wanted)
    return filled


def _is_safe(value: str) -> bool:
    """Whether each of the values, which commas divide, is plain."""
    return all((is_plain(each.partition(":")[0]) and each.partition(":")[2].isdecimal()) or is_plain(each)
               for each in value.split(","))  # fmt: skip
