"""A row of the table of remedies, and the remedy that is made from it for one finding.

A name, an expression or a value of a trace comes from anybody: it enters `code` or `environment` only if it parses by
itself as a name, an attribute, a subscript or a literal. Else the remedy has its text alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from string import Formatter

from coldstep.analysis.remedies.edits import Call, with_keyword
from coldstep.model import Changes, How, Location, Put, Remedy

_MAX_PLAIN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Row:
    """What may be done about one cause. In each text the names of the case are filled in: `{argument}`, `{dim}`."""

    text: str
    """A sentence or two that name the change to make."""
    how: How = "edit"
    """`none` where living with it is right."""
    above: str = ""
    """Statements to put above the user's line; `{expression}` is the argument as that line writes it."""
    wrapped: str = ""
    """What to put in the argument's place in that line: "torch.tensor({expression})"."""
    keyword: str = ""
    """What to add to the function's decorator: "input_signature={signature}"."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables to set, which cure it without an edit."""
    changes: Changes = "nothing"
    """What the program then computes otherwise."""


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
    if row.above:
        code = _code(row.above, case)
    elif row.wrapped and case.call is not None and case.only:
        put, code = "instead", case.call.with_argument(row.wrapped)
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


def is_plain(text: str) -> bool:
    """Whether a text of a trace parses by itself as a name, an attribute, a subscript or a literal, and no more."""
    if not text or len(text) > _MAX_PLAIN_CHARS or "\n" in text:
        return False
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(isinstance(node, _PLAIN) for node in ast.walk(tree))


_PLAIN = (
    ast.Expression, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.UnaryOp, ast.USub, ast.Load,
)  # fmt: skip


def _code(template: str, case: Case) -> str:
    expression = case.call.expression if case.call is not None else ""
    if case.location is None or case.call is None or not case.call.takes_lines_above or not is_plain(expression):
        return ""
    return template.format_map({**case.names, "expression": expression})


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
