"""Reads the lines that torch_xla's C++ logs of graphs: when the compile of each began and ended."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.slotted import slotted
from coldstep.blind_spots import COMPILES, RECOMPILES, Unseen
from coldstep.events import Begin, emit_whole
from coldstep.logs import Line, Log, Seen
from coldstep_collectors.log_definitions import about_unasked

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
        if (match := _COMPILING.search(line.text)) is None:
            return False
        key = match["hash"], match["device"]
        begun = (each for each in reversed(self._graphs) if each.ended_ns is None)
        graph = next((each for each in begun if (each.hash, each.device) == key), None)
        if graph is None and len(self._graphs) < _MOST_GRAPHS:
            graph = _Graph(*key, line.ns)
            self._graphs.append(graph)
        if graph is not None and match["done"]:
            graph.ended_ns = line.ns
        return True

    def emit(self, log: Log) -> Seen | None:
        """Tell of each compile."""
        for graph in self._graphs:
            outcome = "compiled" if graph.ended_ns is not None else "in_progress"
            spent = graph.begun_ns, graph.ended_ns or graph.begun_ns
            emit_graph(log, f"graph {graph.hash[:_SHOWN]}", spent, outcome, graph.hash)
        is_cut = any(graph.ended_ns is None for graph in self._graphs)
        return Seen("partial", None, [_NOT_IN_LINES], cut=is_cut) if self._graphs else None


def emit_graph(log: Log, name: str, spent: tuple[int, int], outcome: str, fingerprint: str | None = None) -> None:
    """Tell of a compile of which no more is known than that it was made; `spent`: from when to when."""
    if (id := log.new_compile()) is not None:
        about = about_unasked("torch_xla", name) | {"key": f"torch_xla:{id}", "identity": id, "function": name}
        about |= {"fingerprint": fingerprint} if fingerprint is not None else {}
        emit_whole(log.emit, Begin(spent[0], name, "torch_xla", None, id, about), spent[1], {"outcome": outcome})
