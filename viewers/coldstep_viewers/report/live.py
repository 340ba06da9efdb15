"""One line on stderr about the compile under way. Standard library only, and on the drain's thread.

On a terminal the line stands below the one that the cursor is on, which may be the program's own progress bar: that one
is never touched, and the cursor returns to where it was. Elsewhere there is a plain line every 30 s.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

from coldstep._util.figures import duration
from coldstep._util.stderr import say
from coldstep.vocabulary import OURS
from coldstep_viewers.safe_text import short

if TYPE_CHECKING:
    from coldstep.recording.recorder import UnderWay

_LONG_NS = 3_000_000_000
_AGAIN_EVERY_NS = 30_000_000_000
# what stands right of the cursor goes, then a row below it is made, for there may be none yet, and cleared
_BELOW = "\x1b[K\x1bD\x1b[A\x1b7\r\x1b[B\x1b[K"
_BACK = "\x1b8"


class Live:
    """Shows a compile that lasts, when called with it several times a second."""

    def __init__(self) -> None:
        self._drawn = False
        self._said: tuple[str, int] | None = None

    def __call__(self, under_way: UnderWay | None) -> None:
        """`under_way` is what compiles now, if anything does."""
        if under_way is not None and under_way.elapsed_ns < _LONG_NS:
            under_way = None
        terminal = _terminal()
        if terminal is not None:
            self._draw(terminal, under_way)
        elif under_way is not None and under_way.elapsed_ns >= _AGAIN_EVERY_NS:
            turn = under_way.compile, under_way.elapsed_ns // _AGAIN_EVERY_NS
            if turn != self._said:
                self._said = turn
                say(line(under_way))

    def _draw(self, terminal: int, under_way: UnderWay | None) -> None:
        if under_way is None and not self._drawn:
            return
        text = ""
        if under_way is not None:
            if _bars_below():
                return
            text = f"coldstep: {line(under_way)}"[: (os.get_terminal_size(terminal).columns or 80) - 1]
        # a terminal that takes nothing now (Ctrl-S) must not hold up the drain
        if select.select([], [terminal], [], 0)[1]:
            os.write(terminal, f"{_BELOW}{text}{_BACK}".encode())
            self._drawn = under_way is not None


def line(under_way: UnderWay) -> str:
    """ "compiling train_step, 12 s: C++ compilation, kernels 12 of 41"; "compiling train_step after ready, 12 s"."""
    elapsed = duration(under_way.elapsed_ns // 10**9 * 10**9).replace(".0 s", " s")
    after = f" after {short(under_way.after)}" if under_way.after is not None else ""
    text = f"compiling {short(under_way.function)}{after}, {elapsed}"
    if under_way.phase is not None:
        text += f": {under_way.words or OURS.phase(under_way.phase)}"
    if under_way.kernels:
        text += f", kernels {min(under_way.built, under_way.kernels)} of {under_way.kernels}"
    return text


def _terminal() -> int | None:
    """The terminal behind stderr, if that is one that can move its cursor."""
    if sys.stderr is None or sys.__stderr__ is None or os.environ.get("TERM", "dumb") == "dumb":
        return None
    # rich puts an object of its own in the place of stderr, which prints above its bars: they must not see our line
    if not (sys.stderr.isatty() and sys.__stderr__.isatty()):
        return None
    return sys.__stderr__.fileno()


def _bars_below() -> bool:
    """Whether tqdm has more than one bar: the further ones stand where our line would."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    return len(getattr(tqdm, "_instances", ())) > 1
