"""Reads the errors of JAX that end a compile: a value that tracing does not have, a program too large for its device,
and what fails below XLA."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep._util.slotted import slotted
from coldstep.events import Begin, emit_whole
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
# JAX 0.8: "jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array with shape bool[]."
# JAX 0.8: "jax.errors.ConcretizationTypeError: Abstract tracer value encountered where concrete value is expected:"
_UNTRACED = re.compile(
    r"^\s*(?:E\s+)?(?:jax\.(?:errors|_src\.errors)\.)?"
    r"(?P<text>(?:Tracer(?:Bool|Integer|Array)Conversion|NonConcreteBooleanIndex|ConcretizationType)Error: "
    r".{1,1000})$"
)
# JAX 0.8: "The error occurred while tracing the function step at /repo/train.py:31 for jit. This concrete value"
_TRACING = re.compile(
    r"The error occurred while tracing the function (?P<name>\S{1,200}) at (?P<file>\S.{0,1000}?):(?P<line>\d{1,9})"
    r" for \w{1,40}\. ?(?P<why>.{0,1000})$"
)
_WITHIN = 60  # lines below an error that its largest buffers come in


@slotted
class _Failure:
    """A compile that failed."""

    ns: int
    error: str
    name: str = UNNAMED
    file: str = ""
    line: int = 0
    is_tracing: bool = False
    """Whether JAX was still tracing the function."""


class CompileErrors:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (b"compile permanent error", b"ompilation fail", b"of memory in memory space ",
                                          b"utotuning failed for HLO", b" ptxas ", b"libdevice not found",
                                          b"ConversionError: ", b"BooleanIndexError: ",
                                          b"ConcretizationTypeError: ")  # fmt: skip

    def __init__(self) -> None:
        self._failed: list[_Failure] = []
        self._left = 0

    @property
    def goes_on(self) -> bool:
        """Whether the next line may name the function that an error is of."""
        return self._left > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._left -= self._left > 0
        untraced = _UNTRACED.search(line.text)
        if (failed := untraced or _FAILED.search(line.text)) is not None:
            error = failed["text"]
            if untraced or all(each.error != error for each in self._failed):  # a filtered traceback has it twice
                self._failed.append(_Failure(line.ns, error, is_tracing=untraced is not None))
                self._left = _WITHIN
        elif self._left and self._failed[-1].is_tracing and (match := _TRACING.search(line.text)):
            self._place(match)
        elif self._left and not self._failed[-1].is_tracing and (match := OF_FUNCTION.search(line.text)):
            self._failed[-1].name = match["name"]
            self._left = 0
        else:
            return False
        return True

    def _place(self, match: re.Match[str]) -> None:
        last = self._failed[-1]
        last.name, last.file, last.line = match["name"], match["file"], int(match["line"])
        last.error = f"{last.error} {match['why']}".strip()
        self._left = 0

    def _apart(self) -> list[_Failure]:
        """Each failure once: a filtered traceback has it twice, and the second time may be cut before its place."""
        rows: dict[tuple[str, str, str, int], _Failure] = {}
        for row in self._failed:
            rows.setdefault((row.error, row.name, row.file, row.line), row)
        placed = [row.error for row in rows.values() if row.file]
        return [row for row in rows.values() if row.file or not any(each.startswith(row.error) for each in placed)]

    def emit(self, log: Log) -> bool:
        """Tell of each as a compile that failed; whether there are any."""
        for row in self._apart():
            if (id := log.new_compile()) is not None:
                about = about_unasked("jax", row.name, row.file, row.line) | {"identity": id}
                begin = Begin(row.ns, about["function"], "jax", None, id, about)
                emit_whole(log.emit, begin, row.ns, {"outcome": "failed", "error": row.error})
        return bool(self._failed)
