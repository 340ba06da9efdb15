"""What a check of an installation found: the rows of `coldstep doctor`."""

from __future__ import annotations

from typing import Any

from coldstep._util.slotted import slotted


@slotted
class CheckedCollector:
    """How a collector attached, in the process of the stack that it watches."""

    name: str
    state: str
    """attached, partial, absent or failed"""
    missing: list[str]
    """What it cannot observe, in words."""
    advice: list[str]
    """What to do about it, in words."""


@slotted
class CheckedTest:
    """One promise, tried."""

    name: str
    """The stack and the thing tried, as "jax.recompile"."""
    ok: bool
    text: str
    """What the test saw, or failed to see."""


@slotted
class Checkup:
    """What works with the frameworks that are installed here."""

    versions: dict[str, str]
    """Of Python, coldstep, and the packages of each stack that is installed."""
    collectors: list[CheckedCollector]
    tests: list[CheckedTest]

    @property
    def ok(self) -> bool:
        """Whether everything promised works."""
        return all(row.ok for row in self.tests) and not any(row.state == "failed" for row in self.collectors)

    def to_json(self) -> dict[str, Any]:
        """The document of schema coldstep-doctor/1."""
        return {
            "schema": "coldstep-doctor/1",
            "versions": self.versions,
            "collectors": [{"name": row.name, "state": row.state, "missing": row.missing} for row in self.collectors],
            "tests": [{"name": row.name, "ok": row.ok, "text": row.text} for row in self.tests],
        }
