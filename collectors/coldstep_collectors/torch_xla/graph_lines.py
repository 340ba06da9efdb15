"""Reads the lines that torch_xla's C++ logs of graphs: when the compile of each began and ended."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.slotted import slotted
from coldstep.blind_spots import COMPILES, RECOMPILES, Unseen
from coldstep.events import Args, Begin, End
from coldstep.logs import Line, Log, Seen

# torch_xla 1.11, 2.1: "Compiling IR graph hash df66499720bf7cec31ff1c926e98ebd1 on device TPU:0 ..."
# torch_xla 1.11, 2.1: "Compiling IR graph hash df66499720bf7cec31ff1c926e98ebd1 on device TPU:0 done!"
_COMPILING = re.compile(
    r"Compiling IR graph hash (?P<hash>[0-9a-f]{1,40}) on device (?P<device>\S{1,40}) (?P<done>done)?"
)
_SHOWN = 8  # characters of a hash
_MOST_GRAPHS = 2_000
_NOT_IN_LINES = Unseen(
    'what made each graph compile, and where (the log has it with env: PT_XLA_DEBUG_LEVEL: "2")', COMPILES, RECOMPILES
)


@slotted
class _Graph:
    """A compile of one."""

    hash: str
    device: str
    begun_ns: int
    ended_ns: int | None = None


class GraphLines:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"Compiling IR graph hash ",)

    def __init__(self) -> None:
        self._graphs: list[_Graph] = []

    def read(self, line: Line) -> bool:
        """Take in a line."""
        match = _COMPILING.search(line.text)
        if match is None:
            return False
        alike = (
            each for each in reversed(self._graphs) if (each.hash, each.device) == (match["hash"], match["device"])
        )
        graph = next((each for each in alike if each.ended_ns is None), None)
        if graph is None and len(self._graphs) < _MOST_GRAPHS:
            graph = _Graph(match["hash"], match["device"], line.ns)
            self._graphs.append(graph)
        if graph is not None and match["done"]:
            graph.ended_ns = line.ns
        return True

    def emit(self, log: Log) -> Seen | None:
        """Tell of each compile."""
        for graph in self._graphs:
            if (id := log.new_compile()) is not None:
                _emit(log, graph, id)
        is_cut = any(graph.ended_ns is None for graph in self._graphs)
        return Seen("partial", None, [_NOT_IN_LINES], cut=is_cut) if self._graphs else None


def _emit(log: Log, graph: _Graph, id: str) -> None:
    name = f"graph {graph.hash[:_SHOWN]}"
    about: Args = {"part": "forward", "function": name, "origin": "user", "key": f"torch_xla:{id}", "identity": id,
                   "location": None, "caller": None, "inputs": [], "context": {},
                   "fingerprint": graph.hash}  # fmt: skip
    begin = Begin(graph.begun_ns, name, "torch_xla", None, id, about)
    log.emit(begin)
    outcome = "compiled" if graph.ended_ns is not None else "in_progress"
    log.emit(End(graph.ended_ns or graph.begun_ns, begin, {"outcome": outcome}))
