"""The pytest plugin: a test with a budget, which fails with the finding that broke it and leaves its trace.

    @pytest.mark.coldstep(max_recompiles=0, settle_by=1, max_graph_breaks=0)
    def test_training(): ...

The fixture `coldstep_run` is the running trace, with or without the mark.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coldstep.model import Trace
    from coldstep.session import Session

# coldstep itself is imported by the first test that needs it: this module is loaded by every pytest run
_MARK = "coldstep"
_MAX_NAME_CHARS = 150


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the traces of failed tests go."""
    where = "where the traces of failed tests are kept (default: coldstep-results)"
    group = parser.getgroup("coldstep")
    group.addoption("--coldstep-output", metavar="DIR", default="coldstep-results", help=where)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(max_recompiles=…, max_graph_breaks=…, max_compiles=…, max_variants=…, settle_by=…, forbid=…, "
        "max_memory=…): trace the test, and fail it when it is over the budget; see coldstep check --help",
    )


class _Recording:
    """The trace of one test, from its call, or from the fixture that asks for it, to the end of its call."""

    def __init__(self) -> None:
        from coldstep.tracing import quiet_trace

        handle, path = tempfile.mkstemp(prefix="coldstep-", suffix=".pftrace")
        os.close(handle)
        self._trace = quiet_trace(path)
        self.run: Session = self._trace.__enter__()
        self._file = Path(path)
        self._open = True

    def end(self, error: BaseException | None) -> None:
        """End the trace."""
        if self._open:
            self._open = False
            self._trace.__exit__(type(error) if error else None, error, None)

    def load(self) -> Trace:
        """The rows."""
        from coldstep.loading import load

        return load(self._file)

    def keep(self, item: pytest.Item) -> Path:
        """Put the file where the traces of failed tests are, under the test's name."""
        folder = item.config.rootpath / str(item.config.getoption("--coldstep-output"))
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".gitignore").write_text("*\n")
        kept = folder / f"{re.sub(r'[^A-Za-z0-9_.=-]+', '-', item.nodeid)[-_MAX_NAME_CHARS:].strip('-')}.pftrace"
        kept.write_bytes(self._file.read_bytes())
        return kept

    def discard(self) -> None:
        """Delete the file."""
        self._file.unlink(missing_ok=True)


_RECORDING = pytest.StashKey[_Recording]()


def _start(item: pytest.Item) -> _Recording:
    try:
        item.stash[_RECORDING] = _Recording()
    except RuntimeError as error:
        raise pytest.fail.Exception(f"cannot trace this test: {error}", pytrace=False) from None
    return item.stash[_RECORDING]


def _limits(item: pytest.Item) -> dict[str, Any] | None:
    """The limits of a test: those of its own marks come before those of its class and module."""
    marks = list(item.iter_markers(_MARK))
    if not marks:
        return None
    if any(mark.args for mark in marks):
        pytest.fail("pytest.mark.coldstep takes limits by name only, such as max_recompiles=0", pytrace=False)
    return {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}


@pytest.fixture
def coldstep_run(request: pytest.FixtureRequest) -> Session:
    """The trace of this test: what `with coldstep.trace(…) as run` binds."""
    return _start(request.node).run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Trace the call, and judge it."""
    limits = _limits(item)
    recording = item.stash.get(_RECORDING, None)
    if limits is None and recording is None:
        return (yield)
    from coldstep.analysis.budgets import BudgetError, parse

    recording = recording or _start(item)
    try:
        budget = parse(limits or {}, recording.run.vocabulary.causes)
    except BudgetError as error:
        raise pytest.fail.Exception(f"pytest.mark.coldstep: {error}", pytrace=False) from None
    if limits is not None and not budget.given():
        pytest.fail("pytest.mark.coldstep: no budget: give a limit such as max_recompiles=0", pytrace=False)
    if budget.max_slowdown:
        pytest.fail("pytest.mark.coldstep: max_slowdown needs several runs: use coldstep check", pytrace=False)
    if budget.max_cache_misses is not None:
        pytest.fail("pytest.mark.coldstep: max_cache_misses needs an earlier run: use coldstep check", pytrace=False)
    try:
        result = yield
    except BaseException as error:
        recording.end(error)
        if isinstance(error, (Exception, pytest.fail.Exception)):
            item.add_report_section("call", "coldstep", f"trace: {_shown(recording.keep(item))}")
        raise
    recording.end(None)
    _judge(item, recording, budget)
    return result


def _judge(item: pytest.Item, recording: _Recording, budget: Any) -> None:
    from coldstep.analysis.budgets import judge
    from coldstep_viewers.ci import formats

    if not budget.given():
        return
    trace = recording.load()
    checked = formats.Checked([""], [trace], judge([trace], budget, whole_run=False))
    if checked.verdict.word != "within":
        pytest.fail(f"{formats.text(checked)}\n\ntrace: {_shown(recording.keep(item))}", pytrace=False)


def _shown(path: Path) -> str:
    """A path as the person who started pytest would write it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End a trace whose test was never called, and delete its file."""
    recording = item.stash.get(_RECORDING, None)
    if recording is not None:
        recording.end(None)
        recording.discard()
    return (yield)
