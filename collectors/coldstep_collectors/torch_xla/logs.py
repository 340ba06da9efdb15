"""Reads torch_xla's report under PT_XLA_DEBUG_LEVEL=2: each graph that was compiled or run, and what made it so; its
metrics; and its lines in C++."""

from __future__ import annotations

import os
from typing import ClassVar

from coldstep import context as forms
from coldstep.blind_spots import COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Args, Begin, GraphBreak, emit_whole
from coldstep.logs import Line, Log, Seen
from coldstep.places import is_installed, location
from coldstep_collectors.torch_xla._private.hooks import (
    COMPILATION,
    COMPILATION_CAUSE,
    EXECUTION,
    EXECUTION_CAUSE,
    Report,
)
from coldstep_collectors.torch_xla.graph_lines import GraphLines
from coldstep_collectors.torch_xla.metrics_log import Metrics

_READ = "trying to access tensor value"
_WHAT = {
    "graph": "graph of a torch.compile call",
    "inputs": "work pending before a torch.compile call",
    "read": "host read",
    "sync": "sync",
}
_TICK_NS = 1_000  # the report has no times, only an order
_MISSING = [
    "what a graph holds and which variables are its inputs: only how many there are",
    "how long compiles took, and when: the report shows their order only",
]
_CUT = "the lines of some compiles, whose stacks are cut off: PT_XLA_DEBUG_MAX_FRAME=100 keeps them whole"
_ONE_OF_SEVERAL = "which graphs of torch.compile calls were recompiles: Dynamo reports that (TORCH_LOGS=recompiles)"
_REASON = (
    "a value is read on the host, by the program or by an operation that torch_xla lacks: what it takes of the pending "
    "graph is compiled and run at once"
)


class TorchXlaReport:
    """Reads the lines of one process."""

    name: ClassVar[str] = "torch_xla"
    marks: ClassVar[tuple[bytes, ...]] = (COMPILATION.encode(), EXECUTION.encode(), *Metrics.MARKS, *GraphLines.MARKS)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._report: Report | None = None
        self._metrics, self._graphs = Metrics(), GraphLines()
        self._compiles = self._seen = False
        self._ns = self._syncs = self._breaks = 0
        self._missing = dict.fromkeys(_MISSING)

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be of an entry of the metrics."""
        return self._metrics.goes_on

    def read(self, line: Line) -> bool:
        """Take in a line."""
        if self._metrics.read(line) or self._graphs.read(line):
            return True
        compiles = COMPILATION in line.text
        before, begins, words = line.text.partition(COMPILATION if compiles else EXECUTION)
        if not begins or before.rstrip().endswith("Post"):
            return False
        self._seen = True
        self._ns = max(self._ns + _TICK_NS, line.ns)
        if words.strip() == (COMPILATION_CAUSE if compiles else EXECUTION_CAUSE):
            self._report, self._compiles = Report(), compiles
        elif self._report is not None and words.startswith("----"):
            self._close(self._report)
            self._report = None
        elif self._report is not None and not words.startswith("===="):
            self._report.take(words)
        return True

    def end(self) -> Seen | None:
        """Emit the compile that the log breaks off in."""
        cut = self._report is not None and self._compiles
        if self._report is not None and self._report.cause:
            self._close(self._report)
        if not self._seen and (seen := self._graphs.emit(self._log)) is not None:
            return seen
        if not self._seen:  # what the metrics count, the report has told of, one by one
            counted = self._metrics.emit(self._log)
            return Seen("partial", None, [Unseen(counted, COMPILES, RECOMPILES, PHASES)]) if counted else None
        return Seen("attached", None, [*self._missing], cut=cut)

    def _close(self, report: Report) -> None:
        if self._compiles:
            self._compile(report)
        elif _READ not in report.cause:
            self._syncs += 1

    def _compile(self, report: Report) -> None:
        if (id := self._log.new_compile()) is None:
            return
        stack = [location(file, line, function) for function, file, line in report.frames if not is_installed(file)]
        where = stack[0] if stack else None
        kind = report.of_dynamo or ("read" if _READ in report.cause else "sync")
        place = f"{where['file']}:{where['line']}" if where else "an unknown line"
        identity = f"{kind} {place} {report.name} {report.cause}"
        if kind == "graph":  # a backward's, and those after graph breaks, are made at the same line
            self._missing[_ONE_OF_SEVERAL] = None
            identity += f" {id}"
        if where is None:
            self._missing[_CUT] = None
            identity += f" {id}"
        context = {forms.FROM_A_LOG.key(): "yes", forms.SYNCS.key(): str(self._syncs)}
        counts = (forms.GRAPH_INPUTS, report.inputs), (forms.GRAPH_OUTPUTS, report.outputs)
        context |= {form.key(): str(count) for form, count in counts if count is not None}
        args: Args = {
            "part": "forward",
            "function": report.name or f"{_WHAT[kind]} at {os.path.basename(place)}",
            "origin": "user",
            "key": f"torch_xla:{where['file'] if where else ''}:{where['function'] if where else ''}",
            "identity": identity,
            "location": where,
            "caller": where,
            "inputs": [],
            "context": context,
            "fingerprint": report.fingerprint or None,
        }
        if kind == "read":
            context[forms.READ.key()] = "yes"
            args["caused_by"] = f"xla{self._breaks}"
        begin = Begin(self._ns, args["function"], "torch_xla", None, id, args)
        emit_whole(self._log.emit, begin, self._ns, {"outcome": "compiled"})
        if kind == "read" and self._log.takes_break():
            about = {"reason": _REASON, "kind": "host_read", "function": where["function"] if where else "",
                     "location": where, "stack": stack[::-1], "hints": []}  # fmt: skip
            self._log.emit(GraphBreak(self._ns, f"xla{self._breaks}", id, about))
            self._breaks += 1
