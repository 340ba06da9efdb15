"""Names and text out of a trace, made safe to show. Standard library only."""

from __future__ import annotations

import re
import unicodedata

from coldstep._util.expressions import expression

# GitHub: "  ::error file=a.py::text"
# Azure: "##[error]text"
# Azure: "##vso[task.complete]"
_COMMAND = expression(r"(?m)^([^\S\n]*)::|#(?=#(?:vso)?\[)")


def plain(text: str) -> str:
    """`text` with nothing in it that a terminal would act on: control, format and lone surrogate characters escaped.

    A trace may come from anybody; names and source lines in it are data. Line breaks stay.
    """
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def inert(text: str) -> str:
    """Printed text without what a CI system's runner would take for a command of its own: a name can begin a line."""
    return _COMMAND.sub(lambda match: "\\x23" if match[0] == "#" else f"{match[1]}\\x3a:", text)


def short(name: str) -> str:
    """A name, made plain, in one line and at most 40 characters: its begin, and more of its end, for names of steps
    differ in where these are."""
    ends = name if len(name) <= 80 else name[:40] + name[-40:]
    text = plain(ends).replace("\n", " ")
    return text if len(text) <= 40 else f"{text[:15]}…{text[-24:]}"


def _visible(character: str) -> str:
    if character == "\t":
        return "    "
    kind = unicodedata.category(character)
    if character == "\n" or (kind[0] != "C" and kind not in ("Zl", "Zp")):
        return character
    return character.encode("unicode_escape").decode("ascii")


def flat(text: str) -> str:
    """The same on one line."""
    return " ".join(plain(text).split("\n"))


def markdown(text: str) -> str:
    """The same as text in Markdown, where none of it is markup."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", flat(text))
