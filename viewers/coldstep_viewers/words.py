"""Figures in a reader's words: "21.4 s", "71 %", "3 steps". Standard library only."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence


def duration(ns: int) -> str:
    """Nanoseconds as a person says them: 95 ns, 180 µs, 3.2 ms, 21.4 s, 2 min 14 s, 1 h 3 min."""
    if ns < 0:
        return f"-{duration(-ns)}"
    for unit, scale in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)):
        value = ns / scale
        text = f"{value:.1f}" if value < 99.95 and ns >= 1_000 else f"{value:.0f}"
        if float(text) < (120 if unit == "s" else 1_000):
            return f"{text} {unit}"
    minutes, seconds = divmod(round(ns / 1e9), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(n: int) -> str:
    """Bytes as a person says them: 512 B, 3.5 KiB, 8.0 GiB."""
    value, units = float(n), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{n} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def percent(share: float) -> str:
    """A share as "71 %"; 100 % and 0 % are said only of all and of nothing."""
    if 0 < share < 0.005:
        return "<1 %"
    return f"{round(share * 100) if share >= 1 else min(99, round(share * 100))} %"


def count(n: int, noun: str, plural: str = "") -> str:
    """ "1 recompile", "2 recompiles"; `plural` where an s does not do."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def numbers(values: Iterable[int]) -> str:
    """ "7", "4 and 7", "1, 4 and 7", "1-9", and "12 steps between 1 and 90" where that would be long."""
    found = sorted(set(values))
    if len(found) > 2 and found[-1] - found[0] == len(found) - 1:
        return f"{found[0]}-{found[-1]}"
    if len(found) > 5:
        return f"{found[0]}, {found[1]}, {found[2]} … {found[-1]}"
    return listed([str(value) for value in found])


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def plain(text: str) -> str:
    """`text` with nothing in it that a terminal would act on: control, format and lone surrogate characters escaped.

    A trace may come from anybody; names and source lines in it are data. Line breaks stay.
    """
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def short(name: str) -> str:
    """A name, made plain, in one line and at most 40 characters."""
    text = plain(name[:41]).replace("\n", " ")
    return text if len(text) <= 40 else f"{text[:39]}…"


def _visible(character: str) -> str:
    if character == "\t":
        return "    "
    kind = unicodedata.category(character)
    if character == "\n" or (kind[0] != "C" and kind not in ("Zl", "Zp")):
        return character
    return character.encode("unicode_escape").decode("ascii")
