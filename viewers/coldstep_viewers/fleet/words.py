"""The cells of a fleet's sections as a person reads them; the terminal and the page show the same."""

from __future__ import annotations

from typing import Any

from coldstep._util.figures import duration, percent
from coldstep_viewers.fleet.sections import Section


def header(column: str) -> str:
    """A column's name."""
    return column.removesuffix("_ns").replace("_", " ")


def is_number(column: str, value: Any) -> bool:
    """Whether a cell stands to the right."""
    return isinstance(value, int | float) or column.endswith("_ns")


def cell(column: str, value: Any) -> str:
    """A value in words."""
    if value is None:
        return ""
    if column.endswith("_ns"):
        return duration(value)
    if column.endswith("share"):
        return percent(value)
    if column == "ledger":
        return ", ".join(f"{part['phase']} {duration(part['ns'])}" for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def columns(section: Section) -> list[str]:
    """Those that any row has something in."""
    names = list(section.rows[0]) if section.rows else []
    return [name for name in names if any(row[name] is not None for row in section.rows)]
