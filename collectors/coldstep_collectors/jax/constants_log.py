"""Reads what XLA and JAX print, with no setting at all, of large constants in a program: seconds that folding takes,
gigabytes of them that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from coldstep._util.gathered import gathered
from coldstep._util.slotted import slotted
from coldstep.logs import Line

# JAX 0.4: "Constant folding an instruction is taking > 1s:"
_FOLDING = re.compile(r"Constant folding an instruction is taking > (?P<s>\d{1,6})s")
# JAX 0.4: "  %reduce.8 = f64[200000,10]{1,0} reduce(f64[200000,10,10]{2,1,0} %broadcast.2, f64[] %constant.3)"
# JAX 0.4: "  reduce-window.16 (displaying the full instruction incurs a runtime overhead. Raise your logging level"
_INSTRUCTION = re.compile(r"\s+%?(?P<name>[\w.-]{1,200}) (?:= |\(displaying the full)")
# JAX 0.4: "metadata={op_name="jit(f)/jit(main)/reduce_sum[axes=(2,)]" source_file="train.py" source_line=13}"
OF_FUNCTION = re.compile(r'op_name="(?:jit|pjit|pmap)\((?P<name>[\w.<>]{1,500})\)/')
# JAX 0.4: "source_file="train.py" source_line=13"
_AT = re.compile(r'source_file="(?P<file>[^"]{1,500})" source_line=(?P<line>\d{1,9})')
# JAX 0.4: "The operation took 6.728977s"
# JAX 0.10: "The operation took 2m27.1s"
_TOOK = re.compile(r"The operation took (?:(?P<h>\d{1,9})h)?(?:(?P<m>\d{1,9})m)?(?P<s>\d{1,9}(?:\.\d{1,12})?)s")
# JAX 0.7: "UserWarning: A large amount of constants were captured during lowering (125.00GB total)."
_CAPTURED = re.compile(
    r"A large amount of constants were captured during lowering \((?P<size>[\d.]{1,20} ?\w{1,5}) total\)"
)
UNNAMED = "a program"
_ALARM = "slow_operation_alarm"
_WITHIN = 4  # lines below the alarm in which the instruction comes, and below the time in which it is there again
_FOLDED = (
    "how long {name} took: the log has only that XLA folded constants in it for {time}{at} (a large array that the "
    "function holds is a constant: pass it as an argument)"
)
_HELD = (
    "how long {name} took: the log has only that it holds {size} of constants (arrays that it should get as arguments; "
    'which they are, the log has with env: JAX_CAPTURED_CONSTANTS_REPORT_FRAMES: "-1")'
)


def took(text: str) -> float | None:
    """The seconds that an operation took, of XLA's line with them; None of another line."""
    match = _TOOK.search(text)
    return 3600 * int(match["h"] or 0) + 60 * int(match["m"] or 0) + float(match["s"]) if match is not None else None


@slotted
class _Folded:
    """An instruction of which XLA has folded constants."""

    ns: int
    instruction: str
    function: str
    at: str
    seconds: float
    is_over: bool = False
    """Whether its time is known, and not only that it took longer."""


class Constants:
    """The lines of one process."""

    MARKS: ClassVar[tuple[bytes, ...]] = (
        b"Constant folding an instruction is taking",
        b"constants were captured during",
    )

    def __init__(self) -> None:
        self._folded: list[_Folded] = []
        self._awaits, self._seconds = 0, 1.0
        self._took: float | None = None
        """What an operation took: XLA repeats its alarm below that."""
        self._left = 0
        self._others = 0
        """Alarms at something else that are open."""
        self._ends_with_it = False
        """Whether that is the log's last line, but for the begin of what repeats the alarm."""
        self._held: dict[str, int] = {}

    @property
    def goes_on(self) -> bool:
        """Whether the next line may be of such an alarm."""
        return self._awaits > 0

    def read(self, line: Line) -> bool:
        """Take in a line."""
        self._awaits -= self._awaits > 0
        self._left -= self._left > 0
        self._ends_with_it &= line.text != "" and "Constant folding".startswith(line.text)
        if match := _FOLDING.search(line.text):
            self._awaits, self._seconds = _WITHIN, float(match["s"])
        elif self._awaits and (match := _INSTRUCTION.match(line.text)):
            self._awaits = 0
            self._begin(match["name"], line)
        elif (seconds := took(line.text)) is not None:
            self._left, self._took, self._ends_with_it = _WITHIN, seconds, not self._others
            self._others -= self._others > 0
            return False  # it may be that of a compile
        elif match := _CAPTURED.search(line.text):
            self._held.setdefault(match["size"], line.ns)
        else:
            self._others += _ALARM in line.source or _ALARM in line.text
            return False
        return True

    def _begin(self, instruction: str, line: Line) -> None:
        """An alarm at an instruction, which XLA repeats with its time."""
        seconds = self._took if self._left else None
        self._took = None
        function, at = OF_FUNCTION.search(line.text), _AT.search(line.text)
        place = f", at {at['file']}:{at['line']}" if at is not None else ""
        name = function["name"] if function is not None else UNNAMED
        alike = [row for row in self._folded if row.instruction == instruction]
        known = next((row for row in alike[::-1] if name in (UNNAMED, row.function) and place in ("", row.at)), None)
        if known is not None:
            known.seconds = seconds or max(known.seconds, self._seconds)
            known.is_over |= seconds is not None
            return
        is_over = seconds is not None
        self._folded.append(_Folded(line.ns, instruction, name, place, seconds or self._seconds, is_over))

    def programs(self, is_of_compile: bool) -> Iterator[tuple[str, int, str]]:
        """Each program of which no more is known: its name, when a line speaks of it, and what the log lacks.

        The time that a log ends with is that of the one alarm that is open, but where it `is_of_compile`.
        """
        open_ = [row for row in self._folded if not row.is_over]
        is_known = self._took is not None and self._ends_with_it and not is_of_compile and len(open_) == 1
        if self._took is not None and is_known and self._took >= open_[0].seconds:
            open_[0].seconds, open_[0].is_over = self._took, True
        by_function = gathered((folded.function, folded) for folded in self._folded)
        for name, rows in by_function.items():
            seconds = sum(row.seconds for row in rows)
            over = "" if all(row.is_over for row in rows) else "more than "
            longest = max(rows, key=lambda row: row.seconds)
            took_ = f"{over}{seconds:{'.3g' if seconds < 1000 else '.0f'}} s"
            yield name, rows[0].ns, _FOLDED.format(name=name, time=took_, at=longest.at)
        for size, ns in self._held.items():
            yield UNNAMED, ns, _HELD.format(name=UNNAMED, size=size)
