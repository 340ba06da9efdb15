"""The picture of a study: a chart for each sweep, a curve for each way in each stack, its turn marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.study.results import Swept
from matplotlib import pyplot

_COLUMNS = 4
_LINES = {"jax": "-", "aot_eager": "--", "inductor": ":", "tensorflow": "-.", "eager": (0, (1, 4))}


def draw(found: Mapping[str, Sequence[Swept]], file: Path) -> None:
    """The time before the steady steps, by n, both on logarithmic scales."""
    lines = -(-len(found) // _COLUMNS)
    figure, axes = pyplot.subplots(
        lines, _COLUMNS, figsize=(18, 4.2 * lines + 0.8), squeeze=False, layout="constrained"
    )
    for (name, curves), axis in zip(found.items(), axes.flat, strict=False):
        ways = list(dict.fromkeys(each.curve.way for each in curves))
        for each in curves:
            known = [(n, row.until_steady_ns / 1e9) for n, row in each.points().items() if row.until_steady_ns]
            title = f"{each.curve.way}, {each.curve.stack}"
            color = f"C{ways.index(each.curve.way)}"
            line = _LINES.get(each.curve.stack, "-")
            axis.plot(*_columns(known), linestyle=line, color=color, marker=".", label=title)
            turned = [(n, s) for n, s in known if str(n) == each.turns_at]
            axis.plot(*_columns(turned), "o", color=color, fillstyle="none", ms=12)
        axis.set(title=name, xlabel="n", ylabel="s", xscale="log", yscale="log")
        axis.legend(fontsize=7, frameon=False)
    for axis in axes.flat[len(found) :]:
        axis.set_axis_off()
    figure.suptitle("The steps before the steady ones; a ring marks where a curve turns")
    figure.savefig(file, dpi=70, metadata={"Software": None})
    pyplot.close(figure)


def _columns(points: Sequence[tuple[int, float]]) -> tuple[Sequence[float], ...]:
    return tuple(zip(*points, strict=True)) if points else ((), ())
