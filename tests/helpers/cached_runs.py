"""Runs of one program in processes of their own, a case each: later ones find on disk what earlier ones have stored."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from scenarios import warm

import coldstep
from coldstep.analysis.caches.reuse import Program
from coldstep.model import Trace


class CachedRuns:
    """The trace of each case, which is run when it is first asked for; the first one fills the cache."""

    def __init__(self, stack: str, source: str, folder: Path) -> None:
        self._stack, self._folder, self._known = stack, folder, dict[str, Trace]()
        (folder / "program.py").write_text(source)
        self("first")

    def __call__(self, case: str, *arguments: str, ir: bool = False) -> Trace:
        """The trace of the program given the case and further arguments; its log lies beside it."""
        name = "-".join((case, *(word for word in arguments if not word.startswith("-"))))
        if name not in self._known:
            options = ["--ir"] if ir else []
            command = ["coldstep", "run", *options, "-o", f"{name}.pftrace", "program.py", case, *arguments]
            code, said = warm.server(self._stack, sys.executable).run(command, self._folder)
            assert code == 0, said
            (self._folder / f"{name}.log").write_text(said)
            self._known[name] = coldstep.load(self._folder / f"{name}.pftrace")
        return self._known[name]


def assert_named(row: Program, differs: Mapping[str, tuple[str, str]]) -> None:
    """Exactly these parts of its key are named, each with words of both values."""
    assert {each.name for each in row.components} == set(differs)
    for each in row.components:
        before, after = differs[each.name]
        assert before in (each.before or "")
        assert after in (each.after or "")
