"""For people's own test suites: record a block, look at what it compiled, and hold it against a budget."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from coldstep.analysis.budgets import Check, judge, parse
from coldstep.loading import load
from coldstep.model import Finding, Trace
from coldstep.tracing import quiet_trace

__all__ = ["Recording", "assert_budget", "record"]


class Recording:
    """The object that `record` binds. Its `trace` has the rows once the block has ended."""

    def __init__(self, path: str) -> None:
        self.path = path
        """The trace file; it is gone once it was read, where no path was given."""
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The rows of the block. Raises RuntimeError inside it."""
        if self._trace is None:
            raise RuntimeError("the recording has not ended: look at it after the with block")
        return self._trace


@contextmanager
def record(path: str | os.PathLike[str] | None = None) -> Iterator[Recording]:
    """Record the block, as `coldstep.trace` does, into `path`, or into a temporary file.

    If the tested program itself calls `coldstep.trace` in the block, that trace joins this one. Raises RuntimeError
    inside a trace.
    """
    if path is not None:
        with quiet_trace(os.fsdecode(path)) as run:
            recording = Recording(run.path)
            yield recording
        recording._trace = load(recording.path)
        return
    with tempfile.TemporaryDirectory(prefix="coldstep-") as folder, record(f"{folder}/recorded.pftrace") as recording:
        yield recording


def assert_budget(trace: Trace, **limits: object) -> None:
    """Raise AssertionError unless `trace` is within `limits` and saw enough to judge.

    The limits are those of `coldstep check`: max_recompiles=0, max_graph_breaks=0, max_compiles={"train_step": 1},
    settle_by=1, forbid=["shape"], max_memory="8 GiB". Raises BudgetError for any other.
    """
    verdict = judge([trace], parse(limits, trace.vocabulary.causes), whole_run=False)
    lines = [f"could not check: {doubt}" for doubt in verdict.doubts]
    printed: set[str] = set()
    for check in verdict.checks:
        if check.verdict != "within":
            lines.append(_sentence(check))
            lines += [line for row in check.findings if row.text not in printed for line in _lines(row)]
            printed |= {row.text for row in check.findings}
    if lines:
        raise AssertionError("\n".join(lines))


def _sentence(check: Check) -> str:
    subject = f" of {check.subject}" if check.subject else ""
    if check.verdict == "unknown":
        return f"{check.limit}{subject}: could not check: {check.why}"
    value = "never" if check.found is None else f"{check.found:g}"
    return f"{check.limit}{subject}: {value}, {check.allowed:g} allowed"


def _lines(finding: Finding) -> Iterator[str]:
    place = f"{finding.location.file}:{finding.location.line}: " if finding.location else ""
    yield f"  {place}{finding.text}"
    if finding.advice:
        yield f"    {finding.advice}"
    yield from (f"    {line}" for evidence in finding.evidence[:3] for line in evidence.splitlines())
