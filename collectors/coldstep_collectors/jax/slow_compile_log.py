"""Reads what XLA prints with no setting at all: its alarms at a slow compile, and at constants that it folds in one."""

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
# JAX 0.1: "Slow compile?  XLA was built without compiler optimizations, which can be slow."
_ALARM = re.compile(r"^\W{0,9}(?:Very s|S)low compile\?")
# JAX 0.3: "Compiling module jit_train_step.99150"
# JAX 0.2: "Compiling module primitive_computation_convert_element_type.3"
_NAME = re.compile(r"\s*Compiling module (?:p?jit|pmap|primitive_computation)_+(?P<name>[\w.]{1,500}?)(?:\.\d{1,9})?$")
# JAX 0.10: "The operation took 2m27.1s"
_TOOK = re.compile(r"The operation took (?:(?P<h>\d{1,9})h)?(?:(?P<m>\d{1,9})m)?(?P<s>[\d.]{1,20})s")
# JAX 0.4: "Constant folding an instruction is taking > 1s:"
_FOLDING = re.compile(r"Constant folding an instruction is taking > (?P<s>\d{1,6})s")
# JAX 0.4: "metadata={op_name="jit(f)/jit(main)/reduce_sum[axes=(2,)]" source_file="train.py" source_line=13}"
_FOLDED_IN = re.compile(r'op_name="(?:jit|pjit|pmap)\((?P<name>[\w.<>]{1,500})\)/')
_UNNAMED = "a program"
_REPEATED_WITHIN = 6  # lines
_FOLDED_WITHIN = 4
_NAMED_WITHIN = 2
_ONLY_SLOW = Unseen(
    "all other compiles, and why these happened: the log has only XLA's alarm at a slow one (it shows more with env: "
    'JAX_LOG_COMPILES: "1", JAX_EXPLAIN_CACHE_MISSES: "1")',
    COMPILES,
    RECOMPILES,
    PHASES,
)
_FOLDED = (
    "how long {name} took: the log has only that XLA folded constants in it for more than {s} s (a large array that "
    "the function holds is a constant: pass it as an argument)"
)


class SlowCompiles:
    """Reads XLA's alarms in the log of one process."""

    name: ClassVar[str] = "jax"
    marks: ClassVar[tuple[bytes, ...]] = (b"low compile?", b"slow_operation_alarm", b"The operation took ",
                                          b"Constant folding an instruction is taking")  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: tuple[Begin, str] | None = None
        self._seen = self._goes_on_without = False
        self._ns = 0
        self._awaits = 0
        """In how many lines the name of the module may come, below an alarm without one."""
        self._took: tuple[int, int] | None = None
        """When a compile ended whose alarm has not been read, and what it took: XLA repeats the alarm below that."""
        self._folded: dict[str, tuple[int, int]] = {}
        """By function: when XLA folded constants in it, and for how many seconds at least."""
        self._folding_s = self._folding = 0  # in how many lines the function may come
        self._repeats, self._left = "", 0  # XLA repeats the alarm below the time that a compile took

    @property
    def goes_on(self) -> bool:
        """Whether the next line is asked for: it may repeat the alarm, or show that the log does not end with it."""
        return self._open is not None or self._left > 0 or self._awaits > 0 or self._folding > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._ns = line.ns
        self._left -= self._left > 0
        named = _NAME.match(line.text) if self._awaits else None
        is_nameless = self._awaits == 1 and named is None
        self._awaits = _NAMED_WITHIN if _ALARM.match(line.text) else max(0, self._awaits - 1)
        if self._fold(line):
            return True
        if match := _SLOW.search(line.text) or named:
            self._take_alarm(match["name"], line.ns)
        elif is_nameless:
            self._take_alarm(_UNNAMED, line.ns)
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

    def _fold(self, line: Line) -> bool:
        """A line on constants that XLA folds: how long that takes, or in which function."""
        self._folding -= self._folding > 0
        if match := _FOLDING.search(line.text):
            self._folding, self._folding_s = _FOLDED_WITHIN, int(match["s"])
        elif self._folding and (match := _FOLDED_IN.search(line.text)):
            ns, seconds = self._folded.get(match["name"], (line.ns, 0))
            self._folded[match["name"]] = ns, max(seconds, self._folding_s)
            self._folding = 0
        else:
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
            phase = Begin(begin.ns, "compile", "jax", "xla.compile")
            self._log.emit(phase)
            self._log.emit(End(begin.ns + took_ns, phase))
        is_over |= took_ns is not None
        self._log.emit(End(ns, begin, {"outcome": "compiled" if is_over else "in_progress"}))

    def end(self) -> Seen | None:
        """Emit the compile that did not end, and those of which no more is known than what XLA folded in them."""
        if self._awaits:
            self._take_alarm(_UNNAMED, self._ns)
        cut = self._open is not None and not self._goes_on_without
        self._finish(self._open[0].ns if self._open is not None else 0)
        missing: list[str] = [_ONLY_SLOW]
        for name, (ns, seconds) in self._folded.items():
            missing.append(_FOLDED.format(name=name, s=seconds))
            self._begin(name, ns)
            self._finish(ns, is_over=True)
        return Seen("partial", None, missing, cut=cut, is_unasked=True) if self._seen else None
