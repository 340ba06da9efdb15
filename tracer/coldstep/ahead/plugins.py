"""The way to what needs a framework and is no collector: its entry point."""

from __future__ import annotations

from functools import cache
from typing import Any

from coldstep._util.installed import offered

GROUP = "coldstep.foresight"


@cache  # to find it takes a look at what is installed
def reach(name: str) -> Any:
    """What the installed distributions provide by that name. Raises LookupError where none does."""
    return offered(GROUP, name)
