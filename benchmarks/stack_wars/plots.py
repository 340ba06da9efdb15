"""The pictures of docs/evidence/stack-wars.md: where the first steps' time went, and how long a steady step takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.stack_wars import STACKS
from benchmarks.stack_wars.results import War
from matplotlib import pyplot

from coldstep.analysis.across.frameworks import StackRow
from coldstep.vocabulary import IMPORTS, OURS, UNATTRIBUTED

_COLUMNS = 3
_MOST_PHASES = 14
_OTHER, _GREY = "other phases", "#b4bac2"


def unsteady(wars: Mapping[str, War], file: Path) -> None:
    """The steps before the steady ones, by phase: a bar per stack, a chart per model."""
    shown = {model: war.traced for model, war in wars.items() if any(row.phases for row in war.traced.values())}
    if not shown:
        return
    whole = sum((_together(row) for traced in shown.values() for row in traced.values()), Counter[str]())
    del whole[UNATTRIBUTED]
    named = [*(name for name, _ in whole.most_common(_MOST_PHASES)), _OTHER, UNATTRIBUTED]
    lines = -(-len(shown) // _COLUMNS)
    figure, axes = pyplot.subplots(
        lines, _COLUMNS, figsize=(15, 3.2 * lines + 1.4), squeeze=False, layout="constrained"
    )
    legend: dict[str, Any] = {}
    for model, axis in zip(shown, axes.flat, strict=False):
        stacks = [stack for stack in STACKS if stack in shown[model]]
        spent = [_together(shown[model][stack]) for stack in stacks]
        left = [0.0] * len(stacks)
        for name in named:
            widths = [(_rest(each, named) if name == _OTHER else each[name]) / 1e9 for each in spent]
            tone = OURS.phases[name].light if name in OURS.phases else _GREY
            bars = axis.barh(stacks, widths, left=left, color=tone)
            legend.setdefault(OURS.phase(name), bars)
            left = [at + width for at, width in zip(left, widths, strict=True)]
        axis.set(title=model, xlabel="s")
        axis.invert_yaxis()
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    figure.legend(list(legend.values()), list(legend), loc="outside lower center", ncols=6, frameon=False)
    figure.suptitle("The steps before the steady ones, by phase")
    _save(figure, file)


def steady(wars: Mapping[str, War], file: Path) -> None:
    """A steady step of each model in each stack."""
    known = {
        model: {stack: row.steady_ns / 1e6 for stack, row in war.traced.items() if row.steady_ns is not None}
        for model, war in wars.items()
    }
    known = {model: each for model, each in known.items() if each}
    stacks = [stack for stack in STACKS if any(stack in each for each in known.values())]
    figure, axis = pyplot.subplots(figsize=(13, 5), layout="constrained")
    width = 0.8 / max(1, len(stacks))
    for n, stack in enumerate(stacks):
        points = [(at, each[stack]) for at, each in enumerate(known.values()) if stack in each]
        color = f"C{list(STACKS).index(stack)}"  # the same in every picture
        axis.bar(
            [at + (n + 0.5) * width for at, _ in points], [ms for _, ms in points], width, label=stack, color=color
        )
    axis.set(yscale="log", ylabel="ms", title="A steady step")
    axis.set_xticks([at + 0.4 for at in range(len(known))], list(known))
    axis.legend(ncols=len(STACKS), loc="upper left", frameon=False)
    axis.margins(y=0.15)
    _save(figure, file)


def _together(row: StackRow) -> Counter[str]:
    """Nanoseconds by phase, imports as one."""
    spent: Counter[str] = Counter()
    for name, ns in row.phases.items():
        spent[IMPORTS if name.startswith("import.") else name] += ns
    return spent


def _rest(spent: Counter[str], named: list[str]) -> int:
    return sum(ns for name, ns in spent.items() if name not in named)


def _save(figure: Any, file: Path) -> None:
    figure.savefig(file, dpi=80, metadata={"Software": None})
    pyplot.close(figure)
