"""Writes into docs/evidence/parallel.md what each process compiled, beside what its framework counted, and who waited.

`python -m examples.parallel.ranks [FOLDER]`, with matplotlib; every row is in parallel-ranks.csv.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
from benchmarks.pages import cell, write
from benchmarks.study.cases import Curve, read
from examples.parallel import stacks
from examples.parallel.__main__ import STUDY

import coldstep
from coldstep._util.figures import duration
from coldstep.rows.intervals import kinds

DOCS = Path(__file__).parents[2] / "docs/evidence"
_DEVICES = 8


@dataclass(slots=True)
class Run:
    """What the processes of one program compiled; each list by rank."""

    curve: Curve
    n: int
    compiles: list[int]
    counted: list[int]
    """By the framework itself."""
    compile_ns: list[int] = field(default_factory=list)
    """In its steps."""
    again: str = ""
    """The recompiles' cause, and their price, of all processes."""
    late: list[str] = field(default_factory=list)
    """Who held up whom."""


def runs(folder: Path) -> Iterator[Run]:
    """All that came to an end."""
    for curve in STUDY.curves(list(STUDY.sweeps), quick=False):
        for n in curve.values:
            record = read(curve.trace(folder, n))
            if record is not None and record.ended == "ok":
                trace = coldstep.load(curve.trace(folder, n))
                compiles = Counter(row.process for row in trace.compiles if row.outcome in ("compiled", "cache_hit"))
                steps = {process: spent.spent() for (process, _), spent in kinds(trace.intervals).items()}
                ranks = sorted(steps, key=lambda process: trace.processes[process].rank or 0)
                made = Run(curve, n, [compiles[process] for process in ranks], [*record.counted.values()])
                for spent in map(steps.__getitem__, ranks):
                    made.compile_ns.append(
                        sum(ns for phase, ns in spent.items() if trace.vocabulary.is_compiling(phase))
                    )
                if trace.recompiles:
                    spent_ns = sum(row.cost_ns for row in trace.recompiles)
                    made.again = f"{trace.recompiles[0].cause} {duration(spent_ns)}"
                made.late += [row.text for row in trace.findings if row.kind == "straggler"]
                yield made


def page(found: Sequence[Run]) -> Iterator[str]:
    """Compile seconds by n, and who waited where one rank was late on purpose."""
    unequal = [f"{run.curve.title}, n = {run.n}" for run in found if run.compiles != run.counted]
    processes = sum(len(run.compiles) for run in found)
    yield f"{processes} processes of {len(found)} runs compiled as often as their frameworks count, each by itself"
    yield f"(Dynamo's `unique_graphs`, JAX's monitoring events){f', but for {unequal}' if unequal else ''}:"
    yield "[parallel-ranks.csv](parallel-ranks.csv). Compile time in the steps, of all processes together:"
    yield ""
    yield "| program | stack | 1 | 2 | 4 | 8 |\n| --- | --- | ---: | ---: | ---: | ---: |"
    by_curve: dict[Curve, dict[int, Run]] = defaultdict(dict)
    for run in found:
        by_curve[run.curve][run.n] = run
    for curve, by_n in by_curve.items():
        if len(by_n) > 2 and any(sum(run.compile_ns) for run in by_n.values()):
            took = (duration(sum(by_n[n].compile_ns)) if n in by_n else "" for n in (1, 2, 4, 8))
            yield f"| {curve.sweep}: {curve.way} | {cell(curve.stack)} | {' | '.join(took)} |"
    yield ""
    costs = (f"{run.curve.way} in {run.curve.stack} at {run.n}: {run.again}" for run in found if run.again)
    yield cell(f"What one other input costs: {'; '.join(costs)}. Who waits where one rank is late:", None)
    yield ""
    for run in found:
        if run.curve.sweep == "late" or run.curve.way == "one_rank":
            words = "; ".join(run.late) or "nobody is seen to wait"
            yield cell(f"- {run.curve.way} in {run.curve.stack}, n = {run.n}: {words}.")


def draw(file: Path) -> None:
    """What each device has of the batch and of a layer's weights, by JAX's own word; what all have is of one colour."""
    from matplotlib import pyplot

    jax, mesh, _ = stacks.jax_on(_DEVICES)
    parts = jax.sharding.PartitionSpec
    rows = _DEVICES * stacks.ROWS
    arrays: dict[str, tuple[tuple[int, int], Any]] = {
        "batch, data parallel: P('x'), Shard(0)": ((rows, stacks.WIDTH), parts("x")),
        "weights, DDP: P(), Replicate()": ((stacks.WIDTH, stacks.HIDDEN), parts()),
        "up, tensor parallel: P(None, 'x')": ((stacks.WIDTH, stacks.HIDDEN), parts(None, "x")),
        "down, tensor parallel; FSDP: P('x')": ((stacks.HIDDEN, stacks.WIDTH), parts("x", None)),
    }
    figure, axes = pyplot.subplots(1, len(arrays), figsize=(14, 3.4), layout="constrained")
    for axis, (title, (shape, spec)) in zip(axes, arrays.items(), strict=True):
        held = numpy.zeros((*shape, _DEVICES))
        for device, index in jax.sharding.NamedSharding(mesh, spec).devices_indices_map(shape).items():
            held[(*index, device.id)] = 1
        axis.imshow(numpy.where(held.sum(-1) > 1, _DEVICES, held.argmax(-1)), cmap="tab10", vmin=0, vmax=9)
        axis.set(title=title)
    figure.savefig(file, dpi=70, metadata={"Software": None})


def main() -> None:
    found = list(runs(Path(sys.argv[1] if len(sys.argv) > 1 else "parallel").resolve()))
    with (DOCS / "parallel-ranks.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("sweep", "stack", "way", "n", "compiles", "counted", "compile_ns", "again", "late"))
        for run in found:
            lists = (" ".join(map(str, each)) for each in (run.compiles, run.counted, run.compile_ns))
            notes = (run.again, "; ".join(run.late))
            table.writerow((run.curve.sweep, run.curve.stack, run.curve.way, run.n, *lists, *notes))
    write(DOCS / "parallel.md", "Each rank", "\n".join(page(found)))
    draw(DOCS / "parallel-sharded.png")


if __name__ == "__main__":
    main()
