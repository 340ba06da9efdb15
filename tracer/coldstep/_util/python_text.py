"""Reads texts that may be no Python as Python, and keeps Python from warning of them on stderr: of a number that runs
into a word, and of a backslash before the wrong letter."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from coldstep._util.expressions import expression

# Python: "1if x else y", "'\d'"
_WARNED_OF = expression(r"(?<!\w)\d\w*(?:and|else|for|if|in|is|or|not)|\\")


def tree(text: str) -> ast.expr:
    """The expression. Raises SyntaxError, ValueError, MemoryError or RecursionError where it is none."""
    if not _WARNED_OF.search(text):
        return ast.parse(text, mode="eval").body
    with warnings.catch_warnings():  # not for every text: in a traced process Python then forgets what it has said once
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body


def literal(text: str) -> Any:
    """A number, a string, a container of such. Raises as `tree` does where it is none."""
    try:
        return ast.literal_eval(tree(text.lstrip(" \t")))
    except TypeError as error:  # "{[]: 1}"
        raise ValueError(*error.args) from None
