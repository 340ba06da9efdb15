"""Reads the errors of JAX that end a compile: a program too large for its device, and what fails below XLA."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.events import Begin, End
from coldstep.logs import Line, Log
from coldstep_collectors.jax.constants_log import OF_FUNCTION, UNNAMED
from coldstep_collectors.log_definitions import about_unasked

# JAX 0.4: "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of mem"
# JAX 0.7: "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: XLA:TPU compile permanent error."
# JAX 0.8: "jax.errors.JaxRuntimeError: INTERNAL: Autotuning failed for HLO: %fusion.12 = f32[8,8]{1,0} fusion("
# JAX 0.4: "jaxlib.xla_extension.XlaRuntimeError: UNIMPLEMENTED: ptxas too old. Falling back to the driver to compile."
_FAILED = re.compile(
    r"\b(?P<text>(?:Xla|Jax)RuntimeError: [A-Z_]{3,40}: .{0,200}?"
    r"(?:compile permanent error|[Cc]ompilation fail|Ran out of memory in memory space|Autotuning failed for HLO"
    r"|ptxas (?:too old|exited)|libdevice not found).{0,1000})$"
)
_WITHIN = 60  # lines below an error that its largest buffers come in


class CompileErrors:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"compile permanent error", b"ompilation fail", b"of memory in memory space ",
                                          b"utotuning failed for HLO", b" ptxas ", b"libdevice not found")  # fmt: skip

    def __init__(self) -> None:
        self._failed: list[tuple[int, str, str]] = []
        self._left = 0

    @property
    def goes_on(self) -> bool:
        """Whether the next line may name the function that an error is of."""
        return self._left > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._left -= self._left > 0
        if match := _FAILED.search(line.text):
            if match["text"] not in (error for _, _, error in self._failed):  # a filtered traceback has it twice
                self._failed.append((line.ns, UNNAMED, match["text"]))
                self._left = _WITHIN
        elif self._left and (match := OF_FUNCTION.search(line.text)):
            ns, _, error = self._failed[-1]
            self._failed[-1] = ns, match["name"], error
            self._left = 0
        else:
            return False
        return True

    def emit(self, log: Log) -> bool:
        """Tell of each as a compile that failed; whether there are any."""
        for ns, name, error in self._failed:
            if (id := log.new_compile()) is not None:
                about = about_unasked("jax", name) | {"identity": id}
                begin = Begin(ns, about["function"], "jax", None, id, about)
                log.emit(begin)
                log.emit(End(ns, begin, {"outcome": "failed", "error": error}))
        return bool(self._failed)
