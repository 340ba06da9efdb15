"""Reads what JAX and XLA print with no setting at all: alarms at a slow compile, large constants, a compile's error."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.blind_spots import COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Begin, End, emit_whole
from coldstep.logs import Line, Log, Seen
from coldstep_collectors.jax.compile_error_log import CompileErrors
from coldstep_collectors.jax.constants_log import UNNAMED, Constants, took
from coldstep_collectors.log_definitions import about_unasked

# JAX 0.10: "[Compiling module jit_train_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS="
# JAX 0.10: "[Compiling module jit_train_step for CPU] Very slow compile?"
# JAX 0.3: "[Compiling module jit_train_step.8] Very slow compile?"
_SLOW = re.compile(
    r"\[Compiling module (?:p?jit|pmap)_+(?P<name>[\w.]{1,500}?)(?:\.\d{1,9})?(?: for [^\]]{1,99})?\]"
    r"(?: Very slow compile|$)"
)
# JAX 0.3: "Very slow compile?  If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and attach"
# JAX 0.1: "Slow compile?  XLA was built without compiler optimizations, which can be slow."
_ALARM = re.compile(r"^\W{0,9}(?:Very s|S)low compile\?")
# JAX 0.3: "Compiling module jit_train_step.99150"
# JAX 0.2: "Compiling module primitive_computation_convert_element_type.3"
_NAME = re.compile(r"\s*Compiling module (?:p?jit|pmap|primitive_computation)_+(?P<name>[\w.]{1,500}?)(?:\.\d{1,9})?$")
_REPEATED_WITHIN = 6  # lines
_NAMED_WITHIN = 2
_ONLY_SLOW = Unseen(
    "all other compiles, and why these happened: the log has only the lines printed unasked (it shows more with env: "
    'JAX_LOG_COMPILES: "1", JAX_EXPLAIN_CACHE_MISSES: "1")',
    COMPILES,
    RECOMPILES,
    PHASES,
)


class SlowCompiles:
    """Reads XLA's alarms in the log of one process."""

    name: ClassVar[str] = "jax"
    marks: ClassVar[tuple[bytes, ...]] = (b"low compile?", b"slow_operation_alarm", b"The operation took ",
                                          *Constants.MARKS, *CompileErrors.MARKS)  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: tuple[Begin, str] | None = None
        self._seen = self._goes_on_without = False
        self._ns = 0
        self._awaits = 0
        """In how many lines the name of the module may come, below an alarm without one."""
        self._took: tuple[int, int] | None = None
        """When a compile ended whose alarm has not been read, and what it took: XLA repeats the alarm below that."""
        self._constants, self._errors = Constants(), CompileErrors()
        self._repeats, self._left = "", 0  # XLA repeats the alarm below the time that a compile took

    @property
    def goes_on(self) -> bool:
        """Whether the next line is asked for: it may repeat the alarm, or show that the log does not end with it."""
        awaits = self._open is not None or self._left > 0 or self._awaits > 0
        return awaits or self._constants.goes_on or self._errors.goes_on

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._ns = line.ns
        self._left -= self._left > 0
        named = _NAME.match(line.text) if self._awaits else None
        is_nameless = self._awaits == 1 and named is None
        self._awaits = _NAMED_WITHIN if _ALARM.match(line.text) else max(0, self._awaits - 1)
        if self._errors.read(line) or self._constants.read(line):
            return True
        if match := _SLOW.search(line.text) or named:
            self._take_alarm(match["name"], line.ns)
        elif is_nameless:
            self._take_alarm(UNNAMED, line.ns)
        elif (seconds := took(line.text)) is not None:
            self._left, self._took = _REPEATED_WITHIN, (line.ns, round(seconds * 1e9))
            if self._open is None:
                self._repeats = ""
                return False
            self._repeats = self._open[1]
            self._finish(*self._took)
            self._took = None
        else:
            self._goes_on_without |= self._open is not None and line.text.strip("* ") != ""
            return False
        return True

    def _take_alarm(self, name: str, ns: int) -> None:
        """An alarm at the compile of a function, which XLA repeats below the time that it took."""
        self._awaits = 0
        if self._left and name == self._repeats:
            self._left = 0
            return
        self._finish(ns, is_over=True)
        self._begin(name, ns)
        took, self._took = self._took, None
        if took is not None and self._left:
            self._repeats = name
            self._finish(*took)

    def _begin(self, name: str, ns: int) -> None:
        self._seen, self._goes_on_without = True, False
        if (id := self._log.new_compile()) is not None:
            about = about_unasked("jax", name)
            about["identity"] = id  # of two functions of one name, or of one: nothing is claimed of recompiles
            self._open = Begin(ns, about["function"], "jax", None, id, about), name

    def _finish(self, ns: int, took_ns: int | None = None, is_over: bool = False) -> None:
        """The compile has ended, or the next one is under way, and it `is_over`; the alarm came amid it, and without a
        time it is not known how long it took."""
        opened, self._open = self._open, None
        if opened is None:
            return
        begin, _ = opened
        begin.ns = max(1, ns - took_ns) if took_ns is not None else begin.ns
        self._log.emit(begin)
        if took_ns is not None:
            emit_whole(self._log.emit, Begin(begin.ns, "compile", "jax", "xla.compile"), begin.ns + took_ns)
        is_over |= took_ns is not None
        self._log.emit(End(ns, begin, {"outcome": "compiled" if is_over else "in_progress"}))

    def end(self) -> Seen | None:
        """Emit the compile that did not end, and those of which no more is known than what XLA folded in them."""
        if self._awaits:
            self._take_alarm(UNNAMED, self._ns)
        cut = self._open is not None and not self._goes_on_without
        self._finish(self._open[0].ns if self._open is not None else 0)
        missing: list[str] = [_ONLY_SLOW]
        for name, ns, words in self._constants.programs(is_of_compile=self._took is None):
            missing.append(words)
            self._begin(name, ns)
            self._finish(ns, is_over=True)
        self._seen |= self._errors.emit(self._log)
        return Seen("partial", None, missing, cut=cut, is_unasked=True) if self._seen else None
