"""`make threads`: each thread judged, in a table; with words, those whose names hold one of them; after `second`,
`third`, `fourth`, `fifth`, `sixth`, `seventh`, `eighth` or `ninth`, those of that set."""

from __future__ import annotations

import sys
from statistics import median

from threads.judge import PROGRAMS, SETS, header, judge


def main() -> None:
    """Print a line for each program, then what they come to."""
    words = sys.argv[1:]
    programs, words = (SETS[words[0]], words[1:]) if words and words[0] in SETS else (PROGRAMS, words)
    chosen = [path for path in programs if not words or any(word in path.stem for word in words)]
    here = [path for path in chosen if _runs_here(header(path)["stack"])]
    columns = ("thread", "mechanism", "cause", "advice", "losses", "line", "first answer")
    print(f"| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |")
    rows = []
    for path in here:
        row, about = judge(path), header(path)
        rows.append(row)
        of = f" of {about['argument']}" if about["argument"] else ""
        print(f"| {row.name} | {about['mechanism']}{of} | {row.cause} | {row.advice} | {row.losses} | {row.line} of "
              f"{row.lines} | {row.first.replace('|', '/')[:110]} |", flush=True)  # fmt: skip
    for title, values in (("cause", [row.cause for row in rows]), ("advice", [row.advice for row in rows])):
        counted = ", ".join(f"{value} {values.count(value)}" for value in dict.fromkeys(values))
        print(f"\n{title}: {counted} (of {len(rows)})")
    lines = [row.line for row in rows if row.line is not None]
    if lines:
        print(f"\nthe answer begins in line {median(lines):g} (median), {max(lines)} at most")


def _runs_here(stack: str) -> bool:
    """Whether this environment has the stack: torch_xla has one of its own."""
    from importlib.util import find_spec

    xla = find_spec("torch_xla") is not None
    return (stack == "torch_xla") == xla


if __name__ == "__main__":
    main()
