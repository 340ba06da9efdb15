"""Writes into docs/evidence/flow-matching.md what was foretold and what came of it, what was learnt, and the picture.

`python -m examples.flow_matching.page [FOLDER]`, with matplotlib; the figures of each run are in flow-matching.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

import numpy as np
from benchmarks.pages import cell, write
from benchmarks.study.cases import Record, read
from examples.flow_matching.__main__ import STUDY
from examples.flow_matching.learnt import drawn
from examples.flow_matching.molecules import EDGES, SIZES, distances
from examples.flow_matching.sizes import FEW

import coldstep
from coldstep.ahead.plans import padded
from coldstep.ahead.work import work_of

DOCS = Path(__file__).parents[2] / "docs/evidence"
_PLANS = {"as_is": [*SIZES], "dynamic": [], "padded": [SIZES[-1]], "few": [*FEW]}
_DRAWS = 40
_MEASURES = ("all pairs together", "size by size", "pair of atoms by pair of atoms")

Key = tuple[str, str, str, int]
"""Sweep, stack, way, n."""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "flow_matching").resolve()
    found: dict[Key, Record] = {}
    compiles: dict[Key, int] = {}
    for curve in STUDY.curves(list(STUDY.sweeps), quick=False):
        for n in curve.values:
            record, key = read(curve.trace(folder, n)), (curve.sweep, curve.stack, curve.way, n)
            if record is not None and record.ended == "ok":
                found[key] = record
                if curve.sweep == "sizes":
                    rows = coldstep.load(curve.trace(folder, n)).compiles
                    compiles[key] = sum(row.origin == "user" and row.outcome == "compiled" for row in rows)
    kept = {" ".join(map(str, key)): record.measured for key, record in found.items() if record.measured}
    (DOCS / "flow-matching.json").write_text(f"{json.dumps(kept)}\n")
    write(DOCS / "flow-matching.md", "What the forecast foretold", "\n".join(foretold(found, compiles)))
    learnt = {key[1:]: record.measured for key, record in found.items() if key[0] == "learnt"}
    write(DOCS / "flow-matching.md", "What was learnt", "\n".join(quality(learnt)))
    draw(learnt, DOCS / "flow-matching-molecules.png")


def foretold(found: dict[Key, Record], compiles: dict[Key, int]) -> Iterator[str]:
    """Of each plan, compiles and work, as they were foretold from sizes and from a trace's steps, and as they came."""
    numbers = "compiles, foretold | coldstep | framework | work by size | by steps | CPU | middle half | off by"
    yield f"| stack | plan | {numbers} |"
    yield f"| --- | --- |{' ---: |' * 8}"
    for (sweep, stack, *_), record in found.items():
        if sweep != "price":
            continue
        *ways, again = zip(record.measured["ways"], zip(*record.measured["rounds"], strict=True), strict=True)
        took = {tuple(to): each for to, each in ways}
        plans = {tuple(plan["buckets"]): plan for plan in record.measured["by_size"] + record.measured["by_steps"]}
        step_ns = {int(size): ns for size, ns in record.measured["work"]["step_ns"].items()}
        for to, plan in sorted(plans.items(), key=_few_first):
            way = next((name for name, sizes in _PLANS.items() if tuple(sizes) == to), "")
            key = ("sizes", stack, way, len(SIZES))
            counts = [compiles[key], sum(found[key].counted.values())] if key in found else ["", ""]
            if way or to in took:
                price = _price(_work(to, {}), _work(to, step_ns) if step_ns else None, took.get(to))
                name = f"{plan['kind'].replace('_', ' ')}{': ' if to else ''}{', '.join(map(str, to))}"
                yield f"| {cell(stack)} | {name} | {plan['compiles']} | {counts[0]} | {counts[1]} | {price} |"
        yield f"| {cell(stack)} | as it is, again: the null | | | | {_price(1, 1, again[1])} |"


def _few_first(plan: tuple[tuple[int, ...], Any]) -> tuple[bool, int, tuple[int, ...]]:
    """As it is and dynamic, then by how many sizes there are."""
    to, about = plan
    return about["kind"] in ("longest", "buckets"), len(to) or len(SIZES) + 1, to


def _work(buckets: tuple[int, ...], step_ns: dict[int, int]) -> float:
    """As a forecast has it, where the work without padding is 1."""
    work = work_of(SIZES, step_ns)
    return sum(work[size] for size in padded(SIZES, buckets or SIZES)) / sum(work.values())


def _price(by_size: float, by_steps: float | None, took: Any) -> str:
    steps = f"{by_steps:.2f}" if by_steps is not None else ""
    if took is None:
        return f"{by_size:.2f} | {steps} | | | "
    low, middle, high = quantiles(took, n=4)
    off = f"{100 * (middle / (by_steps or by_size) - 1):+.0f} %"
    return f"{by_size:.2f} | {steps} | {middle:.2f} | {low:.2f} to {high:.2f} | {off}"


def quality(learnt: dict[tuple[str, str, int], Any]) -> Iterator[str]:
    """How far the molecules' pair distances are from held-out ones, in ångström."""
    yield f"| stack | updates | loss | {' | '.join(_MEASURES)} |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for (stack, _, n), run in learnt.items():
        loss = f"{run['losses'][-1]:.3f}" if run["losses"] else ""
        yield f"| {cell(stack)} | {n} | {loss} | {' | '.join(_spread(run['distances']))} |"
    rng = np.random.default_rng(2)
    of_data = [distances(drawn(rng), drawn(rng)) for _ in range(_DRAWS)]
    yield f"| data, {_DRAWS} draws | | | {' | '.join(_spread(of_data))} |"


def _spread(repeats: list[list[float]]) -> Iterator[str]:
    for each in zip(*repeats, strict=True):
        yield f"{mean(each):.3f} ({min(each):.3f} to {max(each):.3f})"


def draw(learnt: dict[tuple[str, str, int], Any], file: Path) -> None:
    """Molecules before and after, the losses, and the pair distances."""
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(15, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, len(SIZES) + 3)
    most = max(n for _, _, n in learnt)
    rows = [run for (stack, _, n), run in learnt.items() if stack == "jax" and n in (0, most)]
    for row, run in enumerate(rows):
        for at, of_size in enumerate(run["made"]):
            axis = figure.add_subplot(grid[row, at], projection="3d")
            axis.plot(*np.array(of_size[0]).T, marker="o", ms=7)
            axis.set_axis_off()
            axis.set_title(f"{SIZES[at]} atoms{'' if row else ', untrained'}", fontsize=9)
    losses = figure.add_subplot(grid[0, len(SIZES) :])
    for (stack, _, n), run in learnt.items():
        if run["losses"]:
            of = np.arange(1, len(run["losses"]) + 1) * n / len(run["losses"])
            losses.plot(of, run["losses"], "-" if stack == "jax" else "--", label=f"{stack}, {n} updates")
    losses.set(title="Loss", xlabel="update", yscale="log")
    losses.legend(fontsize=8, frameon=False)
    pairs = figure.add_subplot(grid[1, len(SIZES) :])
    for (stack, _, n), run in learnt.items():
        if n in (0, most):
            pairs.stairs(run["histograms"][0], EDGES, label=f"{stack}, {n} updates")
    pairs.stairs(rows[-1]["histograms"][1], EDGES, fill=True, color="0.85", label="held out")
    pairs.set(title="Distances of pairs, Å")
    pairs.legend(fontsize=8, frameon=False)
    figure.savefig(file, dpi=70, metadata={"Software": None})


if __name__ == "__main__":
    main()
