"""Reads what XLA prints with no setting at all: its alarm at a slow compile."""

from __future__ import annotations

import re
from typing import ClassVar

from coldstep.blind_spots import COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.events import Begin, End
from coldstep.logs import Line, Log, Seen
from coldstep_collectors.log_definitions import about_unasked

# JAX 0.10: "[Compiling module jit_train_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS="
# JAX 0.10: "[Compiling module jit_train_step for CPU] Very slow compile?"
# JAX 0.3: "[Compiling module jit_train_step.8] Very slow compile?"
_SLOW = re.compile(
    r"\[Compiling module (?:p?jit|pmap)_+(?P<name>[\w.]{1,500}?)(?:\.\d{1,9})?(?: for [^\]]{1,99})?\]"
    r"(?: Very slow compile|$)"
)
# JAX 0.3: "Very slow compile?  If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and attach"
_ALARM = "Very slow compile?"
# JAX 0.3: "Compiling module jit_train_step.99150"
# JAX 0.2: "Compiling module primitive_computation_convert_element_type.3"
_NAME = re.compile(r"\s*Compiling module (?:p?jit|pmap|primitive_computation)_+(?P<name>[\w.]{1,500}?)(?:\.\d{1,9})?$")
# JAX 0.10: "The operation took 2m27.1s"
_TOOK = re.compile(r"The operation took (?:(?P<h>\d{1,9})h)?(?:(?P<m>\d{1,9})m)?(?P<s>[\d.]{1,20})s")
_REPEATED_WITHIN = 6  # lines
_NAMED_WITHIN = 2
_ONLY_SLOW = Unseen(
    "all other compiles, and why these happened: the log has only XLA's alarm at a slow one (it shows more with env: "
    'JAX_LOG_COMPILES: "1", JAX_EXPLAIN_CACHE_MISSES: "1")',
    COMPILES,
    RECOMPILES,
    PHASES,
)


class SlowCompiles:
    """Reads XLA's alarms in the log of one process."""

    name: ClassVar[str] = "jax"
    marks: ClassVar[tuple[bytes, ...]] = (b"Very slow compile", b"slow_operation_alarm", b"The operation took ")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: tuple[Begin, str] | None = None
        self._seen = self._goes_on_without = False
        self._awaits = 0
        """In how many lines the name of the module may come, below an alarm without one."""
        self._took: tuple[int, int] | None = None
        """When a compile ended whose alarm has not been read, and what it took: XLA repeats the alarm below that."""
        self._repeats, self._left = "", 0  # XLA repeats the alarm below the time that a compile took

    @property
    def goes_on(self) -> bool:
        """Whether the next line is asked for: it may repeat the alarm, or show that the log does not end with it."""
        return self._open is not None or self._left > 0 or self._awaits > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._left -= self._left > 0
        named = _NAME.match(line.text) if self._awaits else None
        self._awaits = _NAMED_WITHIN if _ALARM in line.text else max(0, self._awaits - 1)
        if match := _SLOW.search(line.text) or named:
            self._awaits = 0
            if self._left and match["name"] == self._repeats:
                self._left = 0
                return True
            self._finish(line.ns, is_over=True)
            self._begin(match["name"], line.ns)
            took, self._took = self._took, None
            if took is not None and self._left:
                self._repeats = match["name"]
                self._finish(*took)
        elif match := _TOOK.search(line.text):
            seconds = 3600 * int(match["h"] or 0) + 60 * int(match["m"] or 0) + float(match["s"])
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
            phase = Begin(begin.ns, "compile", "jax", "xla.compile")
            self._log.emit(phase)
            self._log.emit(End(begin.ns + took_ns, phase))
        is_over |= took_ns is not None
        self._log.emit(End(ns, begin, {"outcome": "compiled" if is_over else "in_progress"}))

    def end(self) -> Seen | None:
        """Emit the compile that did not end."""
        cut = self._open is not None and not self._goes_on_without
        self._finish(self._open[0].ns if self._open is not None else 0)
        return Seen("partial", None, [_ONLY_SLOW], cut=cut) if self._seen else None
