"""A row of the table of remedies. Imports nothing of ours: a program under a trace reads guards' words, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coldstep.model import Changes, How


@dataclass(frozen=True, slots=True)
class Row:
    """What may be done about one cause. In each text the names of the case are filled in: `{argument}`, `{dim}`."""

    text: str
    """A sentence or two that name the change to make."""
    how: How = "edit"
    """`none` where living with it is right."""
    above: str = ""
    """Statements to put above the user's line; `{expression}`, where one needs it, is the argument as that line writes
    it."""
    each: bool = False
    """Whether every call needs these, and not the first one alone."""
    instead: str = ""
    """A statement to write instead of the user's line, made of plain parts by `edits`: "{statement}"."""
    over: str = ""
    """Statements so made to put above it."""
    under: str = ""
    """The same, below it."""
    keyword: str = ""
    """What to add to the function's decorator: "input_signature={signature}"."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables to set, which cure it without an edit."""
    changes: Changes = "nothing"
    """What the program then computes otherwise."""
