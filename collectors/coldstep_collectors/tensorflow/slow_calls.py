"""XLA's compiles below a trace, which nothing announces: in calls of a graph that were slow."""

from __future__ import annotations

import sys
from typing import Any

from coldstep import context as forms
from coldstep._util.expressions import expression
from coldstep._util.figures import duration
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import Begin, End
from coldstep_collectors.steps._private import trainers
from coldstep_collectors.tensorflow._private import hooks as private
from coldstep_collectors.tensorflow._private.executable_memory import ExecutableMemory
from coldstep_collectors.tensorflow._private.hooks import UNTIMED_NS, Internals, Watch
from coldstep_collectors.tensorflow.compiles import Call, Compile
from coldstep_collectors.tensorflow.describe import tensor_text

TRACK = "tensorflow"
XLA = "tensorflow.xla"
_CONSTANT_ELEMENTS = 16  # of a tensor of integers whose values XLA may compile in
# coldstep: "f32[None,16]"
_OPEN_ROWS = expression(r"\[None\b")
# coldstep: "i32[8,None]"
_OPEN = expression(r"\bNone\b")
_UNSEEN_SIZES = "{path} is {type}: TensorFlow takes it from an iterator, and does not show its other sizes"


class SlowCalls:
    """Those of graphs that XLA compiles, in whole or in part."""

    def __init__(self, sink: Sink, tensorflow: Any, internals: Internals) -> None:
        self._sink, self._tensorflow, self._internals = sink, tensorflow, internals
        self._memory = ExecutableMemory()

    def begin(self) -> None:
        """Count the executable memory from here on."""
        self._memory.grown()

    def was_slow(self, watch: Watch, began: int, inputs: Any) -> bool:
        """Whether XLA compiled in a call that has just ended, and took longer than others."""
        ended = now()
        compile: Compile = watch.of
        call = self.call(compile, inputs)
        is_new = call is not None and call.shapes not in compile.seen
        grown = self._memory.grown()
        is_known = watch.fastest_ns < UNTIMED_NS  # how long a call takes; else one may be slow by itself
        changed = call.changed(compile.seen[call.shapes]) if call is not None and not is_new else []
        # of one shape XLA compiles again for a value alone: then none of the calls need have been fast
        if not (is_new or grown if is_known else grown and (is_new or changed)):
            return False
        fastest = f", the fastest of the same graph {duration(watch.fastest_ns)}" if is_known else ""
        evidence = [f"the call took {duration(ended - began)}{fastest}"]
        if grown is not None:
            evidence.append(f"regions of executable memory in the process: {grown[0]} → {grown[1]}")
        if call is not None and not is_new:
            evidence += call.differs_from(compile.seen[call.shapes])
            evidence += [_UNSEEN_SIZES.format(path=row["argument"], type=row["type"])
                         for row in call.rows if _OPEN.search(row["type"])]  # fmt: skip
        is_value = call is not None and grown is not None and len(changed) == 1 and call.shows_all()
        compile.compiled_in |= {*changed} if is_value else set()
        name = watch.name.decode(errors="replace")
        about = compile.about | {
            "part": "first_call",
            "identity": f"{compile.about['identity']} {name}",
            "inputs": call.rows if call is not None and (is_new or is_value) else None,
            "context": _values(compile, call) if call is not None else {},
            "parent": compile.id,
            "earlier": True,
            "before": [{"inputs": each.rows, "context": _values(compile, each)} for each in compile.seen.values()],
            "evidence": evidence,
        }
        if call is not None:
            compile.seen[call.shapes] = call
        segment = Begin(began, compile.about["function"], TRACK, compile=self._sink.new_compile(), args=about)
        phase = Begin(began, XLA, TRACK, XLA)
        for event in (segment, phase, End(ended, phase), End(ended, segment, {"outcome": "compiled"})):
            self._sink.emit(event)
        return True

    def call(self, compile: Compile, inputs: Any) -> Call | None:
        """What a call handed over; None where not all of it can be seen."""
        if compile.paths is None:
            return self._batch(compile)
        if inputs is None or len(compile.paths) > len(inputs):
            return None
        rows, values = [], {}
        for path, tensor in zip(compile.paths, inputs, strict=False):  # what the graph has captured comes last
            rows.append({"argument": path, "type": tensor_text(private.shape_of(tensor))})
            if (value := private.small_value(tensor, _CONSTANT_ELEMENTS)) is not None:
                values[path] = value
        for path, reference in compile.variables:
            if (variable := reference()) is not None:
                now_ = self._internals.variable_now(self._tensorflow, variable)
                rows.append({"argument": path, "type": tensor_text(now_)})
        return Call(rows, values)

    def _batch(self, compile: Compile) -> Call | None:
        """What a loop of Keras' has a graph take from its iterator; None where that cannot be seen."""
        known = {call.batch for call in compile.seen.values()}
        rows = trainers.rows_of_keras_batch(sys._getframe(1), known.pop() if len(known) == 1 else None)
        if rows is None:
            return None
        inputs = compile.about["inputs"] or ()
        return Call([{**row, "type": _OPEN_ROWS.sub(f"[{rows}", row["type"])} for row in inputs], {}, rows)


def _values(compile: Compile, call: Call) -> dict[str, str]:
    """The values of a call that XLA has compiled in, as a context has them."""
    return forms.XLA_VALUE.at({path: call.values[path] for path in sorted(compile.compiled_in & call.values.keys())})
