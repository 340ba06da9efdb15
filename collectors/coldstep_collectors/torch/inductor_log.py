"""Reads Inductor's own lines about one compile: that it works on a graph, how long, and what its cache answered."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.events import Args, Begin, End
from coldstep.logs import Log
from coldstep_collectors.torch._private.caches import FX_GRAPH
from coldstep_collectors.torch.log_frames import Frame

# PyTorch 2.2: "FX codegen and compilation took 4.111s"
_TOOK = re.compile(r"FX codegen and compilation took (?P<s>\d{1,9}\.\d{1,9})s")
# PyTorch 2.2: "fx graph cache: on-disk miss for key fihwjtavgh7lffl6lvcq5om25us65tp3diqz4owdc6kiysn73v25"
# PyTorch 2.7: "fx graph cache hit for key fihwjtavgh7lffl6lvcq5om25us65tp3diqz4owdc6kiysn73v25"
_ANSWER = re.compile(r"fx graph cache(?:: on-disk)? (?P<state>hit|miss) for key (?P<key>\w{1,99})")
# PyTorch 2.5: "Bypassing FX Graph Cache because 'Can't cache HigherOrderOperator: triton_kernel_wrapper_mutation'"
_BYPASS = re.compile(r"Bypassing FX Graph Cache because '(?P<why>.{1,500})'")
# PyTorch 2.0, 2.13: "Step 3: torchinductor compiling FORWARDS graph 0"
_STEP = re.compile(r"(?:Step 3: )?torchinductor (?:done )?compiling \w{1,20} graph \d")


class InductorLines:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"FX codegen and compilation took ", b"fx graph cache", b"FX Graph Cache b",
                                          b"torchinductor compiling ", b"torchinductor done ")  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(self, frame: Frame, text: str, ns: int) -> bool:
        """Take in a line about a compile; whether it was one of these."""
        if match := _TOOK.match(text):
            start = max(1, ns - round(float(match["s"]) * 1e9))
            frame.start_ns = min(frame.start_ns, start)
            phase = Begin(start, "compile", "torch", "inductor.compile")
            self._log.emit(phase)
            self._log.emit(End(ns, phase))
        elif match := _ANSWER.match(text):
            frame.compile.add_cache({"layer": FX_GRAPH, "state": match["state"], "key": match["key"]})
        elif match := _BYPASS.match(text):
            row: Args = {"layer": FX_GRAPH, "state": "bypass", "why_text": match["why"]}
            frame.compile.add_cache(row)
        else:
            return _STEP.match(text) is not None
        return True
