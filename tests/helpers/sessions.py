"""What tests of traces that they record themselves share."""

from __future__ import annotations

import textwrap
from pathlib import Path

from coldstep.model import Trace

NONE: list[str] = []  # no collectors
COLLECTOR = """
import coldstep
from coldstep.clock import now
from coldstep.events import Begin, CollectorState, End

class Collector:
    name = "mine"
    def start(self, sink):
        self.sink = sink
        sink.state(self.name, "attached", "1.0", [])
        self.hook = sink.guarded(self.name, self._hook)
    def _hook(self, what):
        {hook}
    def stop(self):
        return ["a wrapped function"]
"""


def check_ledger(trace: Trace) -> None:
    """What holds of every trace, to the nanosecond."""
    for interval in trace.intervals:
        assert sum(interval.phases.values()) + interval.unattributed_ns == interval.wall_ns
    for before, after in zip(trace.intervals, trace.intervals[1:], strict=False):
        assert before.start_ns + before.wall_ns == after.start_ns
    assert trace.intervals[0].start_ns == 0
    assert sum(interval.wall_ns for interval in trace.intervals) == trace.run.wall_ns == trace.processes[0].wall_ns


def install(folder: Path, hook: str, collector: str = COLLECTOR) -> dict[str, str]:
    """A distribution with one collector, `mine`; the environment in which it is installed."""
    (folder / "mine.py").write_text(collector.format(hook=textwrap.indent(textwrap.dedent(hook), " " * 8).strip()))
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[coldstep.collectors]\nmine = mine:Collector\n")
    return {"PYTHONPATH": str(folder)}
