"""What counts as a line of code."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TEXT = '''"""A module."""

import os
from sys import (
    argv,
)

# a comment
VALUE = """of
two lines"""
"""Its docstring."""


def function(
    argument: int,  # explained
) -> int:
    """Its docstring,

    of three lines."""
    import json

    return argument
'''


def test_blank_lines_comments_docstrings_and_imports_are_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    assert importlib.import_module("code_lines").code_lines(TEXT) == 2 + 3 + 1
