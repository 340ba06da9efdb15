"""Names the Pythons that coldstep was tried on, and reports another one as untried."""

from __future__ import annotations

import sys

TRIED = ((3, 11), (3, 12), (3, 13))


def untried(version: tuple[int, int] = sys.version_info[:2]) -> str | None:
    """One line for a Python that nobody has tried coldstep on; None for any other."""
    if version in TRIED:
        return None
    (major, minor), tried = version, ", ".join(f"{one}.{two}" for one, two in TRIED)
    return f"coldstep was not tried on Python {major}.{minor}, only on {tried}: what it reports may be incomplete"
