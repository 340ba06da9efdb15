"""What a rewriting of the user's lines makes of a program."""

from __future__ import annotations

from threads.judge import followed

from coldstep.analysis.remedies.blocks import Block, Written, block_around
from coldstep.model import Location, Remedy


def block_of(text: str, line: int) -> Block | None:
    return block_around({("train.py", 1): text}, Location("train.py", line, ""))


def replaced(text: str, written: Written | None) -> str | None:
    if written is None:
        return None
    return followed(text, Remedy("x", "edit", "", {}, written.code, "instead", written.location, "nothing",
                                 written.lines))  # fmt: skip
