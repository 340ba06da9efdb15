"""Arguments of a trace's events in the types that its rows have; a value of another type counts as unknown."""

from __future__ import annotations


def number(value: object) -> int | None:
    """A whole number."""
    return int(value) if isinstance(value, int) else None


def text(value: object) -> str | None:
    """A text; any other value as a text; None where there is no value."""
    return str(value) if value is not None else None


def flag(value: object) -> bool | None:
    """Yes or no."""
    return value if isinstance(value, bool) else None
