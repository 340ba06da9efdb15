"""Regular expressions that are compiled when they are first used: most runs never meet the words that they read.

Not for hooks, which have no time for it: those use `re.compile`.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _Expression:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(re.compile(self.pattern, self.flags), name)
        return found


def expression(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`; a wrong pattern is told where it is used."""
    return cast("re.Pattern[str]", _Expression(pattern, flags))
