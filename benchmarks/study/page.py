"""Writes a study's table into its page of docs/evidence, and beside it every figure as CSV, and the picture.

`python -m benchmarks.study.page examples.cliffs [FOLDER]`, with matplotlib, on the machine that the study ran on.
"""

from __future__ import annotations

import argparse
import csv
import platform
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path

import psutil
from benchmarks.pages import cell, write
from benchmarks.study.cases import Study
from benchmarks.study.results import COLUMNS, Swept, rows, swept

from coldstep._util.figures import count, duration
from coldstep.analysis.across.sweeps import Point

DOCS = Path(__file__).parents[2] / "docs/evidence"
_ALIKE = 1.2  # times another figure is no difference
HEADING = "As people write it, and instead"


def main() -> None:
    from benchmarks.study import plots  # matplotlib: the table is made, and tested, without it

    parser = argparse.ArgumentParser(prog="python -m benchmarks.study.page", description=__doc__)
    parser.add_argument("study", help="its package, as examples.cliffs")
    parser.add_argument("folder", nargs="?", type=Path, help="of traces and records (the study's name)")
    options = parser.parse_args()
    study: Study = import_module(f"{options.study}.__main__").STUDY
    name = options.study.rpartition(".")[2]
    found = results(study, options.folder or Path(name))
    with (DOCS / f"{name}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(row for curves in found.values() for each in curves for row in rows(each))
    plots.draw(found, DOCS / f"{name}.png")
    write(DOCS / f"{name}.md", HEADING, "\n".join(page(study, found)))


def results(study: Study, folder: Path) -> dict[str, list[Swept]]:
    """By sweep, the curves of which anything is there."""
    found: dict[str, list[Swept]] = defaultdict(list)
    for curve in study.curves(list(study.sweeps), quick=False):
        if (each := swept(curve, folder.resolve())) is not None:
            found[curve.sweep].append(each)
    return dict(found)


def page(study: Study, found: Mapping[str, Sequence[Swept]]) -> Iterator[str]:
    """A row for each remedy in each stack, at the greatest n that both ways have."""
    loads = [record.load[0] for curves in found.values() for each in curves for record in each.records.values()]
    runs = sum(len(each.records) for curves in found.values() for each in curves)
    yield f"{runs} runs, {date.today()}, on {psutil.cpu_count()} cores of {platform.machine()}, other work beside them"
    yield f"(load {min(loads):.1f} to {max(loads):.1f}); a difference of a fifth is none."
    yield ""
    yield "| way → instead | stack | n | until steady | steady | compiles | why; where the first way turns | pays |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |"
    for name, curves in found.items():
        by_way = {(each.curve.stack, each.curve.way): each for each in curves}
        for way, instead in study.sweeps[name].remedies:
            for stack in study.sweeps[name].ways:
                first, then = by_way.get((stack, way)), by_way.get((stack, instead))
                if first is not None and then is not None and (line := _line(name, first, then)):
                    yield line


def _line(name: str, first: Swept, then: Swept) -> str:
    both = sorted(first.points().keys() & then.points().keys())
    if not both:
        return ""
    n = both[-1]
    before, after = first.points()[n], then.points()[n]
    cells = [
        f"{name}: {first.curve.way} → {then.curve.way}",
        first.curve.stack,
        str(n),
        _pair(before.until_steady_ns, after.until_steady_ns),
        _pair(before.row.steady_ns, after.row.steady_ns),
        f"{_known(before.row.compiles)} → {_known(after.row.compiles)}",
        before.why + (f"; turns at {first.turns_at}" if first.turns_at is not None else ""),
        verdict(before, after),
    ]
    return f"| {' | '.join(map(cell, cells))} |"


def _pair(before: int | None, after: int | None) -> str:
    return " → ".join(duration(ns) if ns is not None else "-" for ns in (before, after))


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def verdict(before: Point, after: Point) -> str:
    """Whether writing it the other way pays: at once, from some step on, up to some step, or not."""
    if before.row.first_ns is None:
        return "yes: the other does not run"
    if before.row.steady_ns is None or after.row.steady_ns is None:
        return "yes: the other never settles" if after.row.steady_ns is not None else "not known"
    assert before.until_steady_ns is not None
    assert after.until_steady_ns is not None
    saved = before.until_steady_ns - after.until_steady_ns
    slower = after.row.steady_ns - before.row.steady_ns
    starts = 0 if _is_alike(before.until_steady_ns, after.until_steady_ns) else saved
    steps = 0 if _is_alike(before.row.steady_ns, after.row.steady_ns) else slower
    if starts >= 0 and steps <= 0:
        return "yes" if starts or steps else "no difference"
    if starts <= 0 and steps >= 0:
        return "no"
    crossing = count(abs(starts // steps), "step")
    return f"for {crossing}" if starts > 0 else f"after {crossing}"


def _is_alike(one: int, other: int) -> bool:
    return max(one, other) <= _ALIKE * min(one, other)


if __name__ == "__main__":
    main()
