"""What several test modules share."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def engine() -> ModuleType:
    """Perfetto's own engine: `engine.query(trace, *sql)`, `engine.assert_clean(trace)`."""
    import engine

    return engine
