"""Regular expressions that are compiled when they are first used: most runs never meet the words that they read.

In a hook the first use of one costs some 0.2 ms, once; whoever has no time for it has `re.compile`.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _Expression:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        attribute = self.__dict__[name] = getattr(re.compile(self.pattern, self.flags), name)
        return attribute


def expression(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`; a wrong pattern raises where it is used."""
    return cast("re.Pattern[str]", _Expression(pattern, flags))
