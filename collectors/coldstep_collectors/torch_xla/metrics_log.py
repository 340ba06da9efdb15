"""Reads torch_xla's metrics: how many graphs were compiled, how long that took in all, how many values were read."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.figures import duration
from coldstep.logs import Line, Log
from coldstep_collectors.torch_xla.graph_lines import emit_graph

# torch_xla 2.0: "Metric: CompileTime"
# torch_xla 2.0: "Counter: UncachedCompile"
# Somebody: "Prediction: ***********Metric: CompileTime"
_ENTRY = re.compile(r"\b(?:Metric|Counter): (?P<name>[\w:]{1,99})$")
# torch_xla 2.0: "  TotalSamples: 4"
# torch_xla 2.0: "  Value: 5"
_COUNT = re.compile(r"\s*(?:TotalSamples|Value): (?P<count>\d{1,9})$")
# torch_xla 2.0: "  Accumulator: 47m08s849ms784.283us"
# torch_xla 1.0: "  Counter: 07s501ms263.438us"
_SUM = re.compile(r"\s*(?:Accumulator|Counter): (?P<sum>(?:\d{1,9}(?:\.\d{1,9})?(?:d|h|ms|m|us|s))+)$")
# torch_xla 2.0: "  Percentiles: 1%=002ms652.426us; 50%=002ms53.725us; 99%=06m06s791ms250.100us"
_LONGEST = re.compile(r"\s*Percentiles: .{0,999}\b99%=(?P<sum>(?:\d{1,9}(?:\.\d{1,9})?(?:d|h|ms|m|us|s))+)$")
# torch_xla 2.0: "08s849ms784.283us"
_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|us|s)")
_NS = {"d": 86_400e9, "h": 3_600e9, "m": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3}
# torch_xla 1.8: "pt-xla-profiler: CompileTime too frequent: 21 counts during 11 steps"
_FREQUENT = re.compile(r"CompileTime too frequent: (?P<count>\d{1,9}) counts during \d{1,9} steps")
_TIMES, _READS = "CompileTime", "aten::_local_scalar_dense"
_GRAPHS = ("UncachedCompile", "CreateCompileHandles", "UncachedSyncTensors", "InputOutputAliasCount")
_MOST_COMPILES = 2_000
_MOST_LINES = 8  # of an entry
_GRAPH = "a graph, by torch_xla's metrics"
_COUNTED = (
    "which graphs were compiled, what made each, and how long each took: torch_xla's metrics count {counted} (the log "
    'has more with env: PT_XLA_DEBUG_LEVEL: "2")'
)


class Metrics:
    """The reports of one process: each counts from the begin of the program on, so the last one counts."""

    MARKS: ClassVar[tuple[bytes, ...]] = (
        f"Metric: {_TIMES}".encode(),
        *(f"{kind}: {name}".encode() for name in (*_GRAPHS, _READS) for kind in ("Metric", "Counter")),
        b"CompileTime too frequent: ",
    )

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._sum_ns = self._longest_ns = 0
        self._entry, self._lines = "", 0
        self._ns = 0

    @property
    def goes_on(self) -> bool:
        """Whether the next lines are of one of the entries that matter."""
        return self._entry != ""

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._lines += 1
        if match := _ENTRY.search(line.text):
            self._lines = 0
            self._entry = match["name"] if match["name"] in (_TIMES, *_GRAPHS, _READS) else ""
        elif match := _FREQUENT.search(line.text):
            self._counts[_TIMES] = int(match["count"])
        elif self._entry and (match := _COUNT.match(line.text)):
            self._counts[self._entry] = int(match["count"])
            if self._entry == _TIMES:
                self._sum_ns = self._longest_ns = 0
        elif self._entry == _TIMES and (match := _SUM.match(line.text)):
            self._sum_ns = _ns(match["sum"])
        elif self._entry == _TIMES and (match := _LONGEST.match(line.text)):
            self._longest_ns = _ns(match["sum"])
        else:
            self._entry = self._entry if self._lines < _MOST_LINES else ""
            return False
        self._ns = line.ns
        return True

    def emit(self, log: Log) -> str | None:
        """Emit the compiles. Returns words on what lacks; None where there are none."""
        number = next(filter(None, (self._counts.get(name, 0) for name in (_TIMES, *_GRAPHS))), 0)
        for _ in range(min(number, _MOST_COMPILES)):
            emit_graph(log, _GRAPH, (self._ns, self._ns), "compiled")
        counted = f"{number:,}{f', in {duration(self._sum_ns)}' if self._sum_ns else ''}"
        counted += f" (99 % of them took {duration(self._longest_ns)} or less)" if self._longest_ns else ""
        if reads := self._counts.get(_READS):
            counted += f", and {reads:,} values that were read on the host"
        return _COUNTED.format(counted=counted) if number else None


def _ns(text: str) -> int:
    return round(sum(float(number) * _NS[unit] for number, unit in _PART.findall(text)))
