"""Writes a study's table into its page of docs/evidence, and beside it every figure as CSV, and the picture.

`python -m benchmarks.study.page examples.cliffs [FOLDER]`, with matplotlib, on the machine that the study ran on.
"""

from __future__ import annotations

import argparse
import csv
import platform
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    name = name.replace("_", "-")
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


@dataclass(frozen=True, slots=True)
class Pair:
    """A way as people write it, and what to write instead, at the greatest n that both have."""

    sweep: str
    stack: str
    way: str
    instead: str
    n: int
    before: Point
    after: Point
    turns_at: str | None
    """Where the first way's curve turns."""

    @property
    def pays(self) -> str:
        """The verdict."""
        return verdict(self.before, self.after)


def pairs(study: Study, found: Mapping[str, Sequence[Swept]]) -> Iterator[Pair]:
    """Every remedy in every stack that has both ways."""
    for name, curves in found.items():
        by_way = {(each.curve.stack, each.curve.way): each for each in curves}
        for way, instead in study.sweeps[name].remedies:
            for stack in study.sweeps[name].ways:
                first, then = by_way.get((stack, way)), by_way.get((stack, instead))
                both = sorted(first.points().keys() & then.points().keys()) if first and then else []
                if first and then and both:
                    before, after = first.points()[both[-1]], then.points()[both[-1]]
                    yield Pair(name, stack, way, instead, both[-1], before, after, first.turns_at)


def page(study: Study, found: Mapping[str, Sequence[Swept]]) -> Iterator[str]:
    """Of each sweep a stack's first remedy, PyTorch's as far as it was compiled; and all that do not pay."""
    loads = [record.load[0] for curves in found.values() for each in curves for record in each.records.values()]
    runs = sum(len(each.records) for curves in found.values() for each in curves)
    yield f"{runs} cases, {date.today()}, on {psutil.cpu_count()} cores of {platform.machine()}, other work beside them"
    yield f"(load {min(loads):.1f} to {max(loads):.1f}): a difference of a fifth is none."
    yield ""
    yield "| way → instead | stack | n | until steady | steady | compiles | why; where the first way turns | pays |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |"
    made = list(pairs(study, found))
    for name, sweep in study.sweeps.items():
        of = {row.stack: row for row in reversed(made) if row.sweep == name}  # of a stack's remedies the first
        if "inductor" in of:
            of.pop("aot_eager", None)
        yield from (_line(of[stack]) for stack in sweep.ways if stack in of)
    yield ""
    not_paying = (
        f"{pair.sweep}, {pair.way} → {pair.instead} in {pair.stack} at {pair.n} ({pair.pays})"
        for pair in made
        if pair.pays.partition(" ")[0] in ("no", "for", "after")
    )
    yield cell(f"Of {len(made)} remedies these do not pay, or not always: {'; '.join(not_paying)}.", most=None)


def _line(pair: Pair) -> str:
    before, after = pair.before, pair.after
    cells = [
        f"{pair.sweep}: {pair.way} → {pair.instead}",
        pair.stack,
        str(pair.n),
        _pair(before.until_steady_ns, after.until_steady_ns),
        _pair(before.row.steady_ns, after.row.steady_ns),
        f"{_known(before.row.compiles)} → {_known(after.row.compiles)}",
        before.why + (f"; turns at {pair.turns_at}" if pair.turns_at is not None else ""),
        pair.pays,
    ]
    return f"| {' | '.join(map(cell, cells))} |"


def _pair(before: int | None, after: int | None) -> str:
    return " → ".join(duration(ns) if ns is not None else "-" for ns in (before, after))


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def verdict(before: Point, after: Point) -> str:
    """Whether writing it the other way pays: at once, from some step on, up to some step, or not."""
    if before.row.first_ns is None or after.row.first_ns is None:
        return "yes: the other does not run" if after.row.first_ns is not None else "no: it does not run"
    if before.row.steady_ns is None or after.row.steady_ns is None:
        return "yes: the other never settles" if after.row.steady_ns is not None else "no: it never settles"
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
