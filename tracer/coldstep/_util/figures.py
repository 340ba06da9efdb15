"""Figures in a reader's words: "21.4 s", "3.2 MiB", "71 %", "3 steps". Standard library only."""

from __future__ import annotations

from collections.abc import Iterable


def duration(ns: float) -> str:
    """Nanoseconds for people: 95 ns, 180 µs, 3.2 ms, 21.4 s, 2 min 14 s, 1 h 3 min."""
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


def scatter(median_ns: float, spread_ns: float) -> str:
    """The interquartile range behind a median: "± 3.2 ms"; where it is the larger of the two, in words."""
    return f"± {duration(spread_ns)}" if spread_ns <= median_ns else f"with half within {duration(spread_ns)}"


def size(n: float) -> str:
    """Bytes for people: 512 B, 3.2 MiB, 1.5 GiB."""
    value = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 99.95 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def percent(share: float) -> str:
    """A share as "71 %"; only all is 100 %, and only nothing is 0 %."""
    if 0 < share < 0.005:
        return "<1 %"
    return f"{round(share * 100) if share >= 1 else min(99, round(share * 100))} %"


def count(n: int, noun: str, plural: str = "") -> str:
    """ "1 recompile", "2 recompiles"; `plural` where an s does not do."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def times(n: int) -> str:
    """ "once", "3 times"."""
    return "once" if n == 1 else f"{n} times"


def numbers(values: Iterable[int]) -> str:
    """ "7", "4 and 7", "1, 4 and 7", "1-9", and "1, 4, 9 … 90" where that would be long."""
    ordered = sorted(set(values))
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    if len(ordered) > 5:
        return f"{ordered[0]}, {ordered[1]}, {ordered[2]} … {ordered[-1]}"
    return listed(str(value) for value in ordered)


def listed(parts: Iterable[str], most: int | None = None) -> str:
    """ "a", "a and b", "a, b and c", each once; where there are more than `most`, "a, b and 3 more"."""
    words = list(dict.fromkeys(parts))
    if most is not None and len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
