"""Writes docs/stack-wars.md and its pictures from what `python -m examples.stack_wars` left; needs matplotlib.

`.venv-shows/bin/python -m examples.stack_wars.page [--size tiny] [stack-wars]`
"""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

import psutil
from examples.stack_wars import STACKS
from examples.stack_wars.models import MODELS
from examples.stack_wars.pair import Row, read
from examples.stack_wars.sizes import SIZES_OF
from matplotlib import pyplot

import coldstep
from coldstep.analysis.stacks import NotComparable, StackRow, compare
from coldstep.errors import TraceError
from coldstep.figures import duration, size
from coldstep.model import UNATTRIBUTED
from coldstep.vocabulary import OURS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "stack-wars.md"
_BEGIN, _END = (
    "<!-- made by examples/stack_wars/page.py: begin -->",
    "<!-- made by examples/stack_wars/page.py: end -->",
)
_MOST_CHARS = 400
_JUDGED_BYTES = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="stack-wars", type=Path)
    parser.add_argument("--size", default="tiny")
    options = parser.parse_args()
    found = {model: of for model in MODELS if (of := rows(options.folder / options.size / model))}
    lines = [_BEGIN, "", *about(options.folder, options.size), ""]
    for model, each in found.items():
        lines += [*table(model, options.size, each), ""]
    lines += [*agreement(options.folder / options.size), "", *predictions(options.folder), "", _END]
    plots(found)
    text = PAGE.read_text()
    before, _, rest = text.partition(_BEGIN)
    PAGE.write_text(before + "\n".join(lines) + rest.partition(_END)[2])


def rows(folder: Path) -> dict[str, StackRow | Row]:
    """By stack, what its trace says; where there is none, what became of the pair."""
    found: dict[str, StackRow | Row] = {}
    traces = []
    for stack in STACKS:
        path = folder / f"{stack}.pftrace"
        if path.with_suffix(".json").exists():
            found[stack] = read(path)
        try:
            traces.append((stack, coldstep.load(path)))
        except TraceError:
            continue
    with suppress(NotComparable):
        found |= {row.trace: row for row in compare(traces).rows}
    return found


def about(folder: Path, of: str) -> Iterator[str]:
    memory = size(psutil.virtual_memory().total)
    newest = max((path.stat().st_mtime for path in (folder / of).rglob("*.json")), default=0)
    yield f"`python -m examples.stack_wars --size {of}`, {date.fromtimestamp(newest)}, on {psutil.cpu_count()} cores of"
    yield f"{platform.machine()}, {memory}, without an accelerator; each pair in a process of its own, caches empty."
    yield "One run each: a difference of a tenth is none."


def table(model: str, of: str, found: dict[str, StackRow | Row]) -> Iterator[str]:
    yield f"### {model}"
    yield ""
    yield f"`{SIZES_OF[model][of]}`"
    yield ""
    yield "| stack | first | second | steady | compiles | graphs per step | memory | why |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for stack, row in found.items():
        if isinstance(row, Row):
            yield f"| {stack} | | | | | | | {row.ended.replace('_', ' ')}: {cell(row.why)} |"
            continue
        times = " | ".join("-" if ns is None else duration(ns) for ns in (row.first_ns, row.second_ns, row.steady_ns))
        counts = " | ".join("-" if n is None else str(n) for n in (row.compiles, row.graphs_per_step))
        peak = row.memory.get("peak_rss_bytes")
        reasons = [
            f"{name}: {row.reasons[name]}" for name in ("ended", "first", "second", "steady") if name in row.reasons
        ]
        why = "<br>".join(cell(reason) for reason in reasons)
        yield f"| {stack} | {times} | {counts} | {size(peak) if peak is not None else '-'} | {why} |"


def cell(text: str) -> str:
    text = text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
    return re.sub(r"[|<>]", lambda found: f"\\{found[0]}", text.replace("\n", " "))


def agreement(folder: Path) -> Iterator[str]:
    """How far the losses of five steps lie apart, model by model."""
    yield "## Losses"
    yield ""
    yield "The largest relative difference to eager PyTorch's loss in the first five steps."
    yield ""
    stacks = [stack for stack in STACKS if stack != "eager"]
    yield f"| model | loss 0 → 4 | {' | '.join(stacks)} |"
    yield f"| --- | --- | {' | '.join('---:' for _ in stacks)} |"
    for model in MODELS:
        losses = {
            stack: read(path).losses[:5]
            for stack in STACKS
            if (path := folder / model / f"{stack}.pftrace").with_suffix(".json").exists()
        }
        base = losses.get("eager") or []
        if len(base) < 5:
            continue
        apart = [
            f"{max(abs(a - b) / abs(b) for a, b in zip(losses[stack], base, strict=True)):.0e}"
            if len(losses.get(stack, [])) == 5
            else "-"
            for stack in stacks
        ]
        yield f"| {model} | {base[0]:.4f} → {base[4]:.4f} | {' | '.join(apart)} |"


def predictions(folder: Path) -> Iterator[str]:
    """What would_fit said, beside what the last step held at most above what stood before the model."""
    yield "## Would it fit"
    yield ""
    yield "`coldstep.would_fit`, and the most that was resident in the last step above what stood before the model"
    yield "(`VmHWM`, set back before that step). Below 1 GiB the runtime's own memory is too much of it to be judged."
    yield ""
    yield "| size | model | stack | predicted | measured | predicted ÷ measured |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    for path in sorted(folder.glob("*/*/*.fit.json")):
        said = json.loads(path.read_text())
        stack = path.name.removesuffix(".fit.json")
        ran = path.with_name(f"{stack}.json")
        row = read(ran.with_suffix(".pftrace")) if ran.exists() else None
        rise = row.peak_bytes - row.before_bytes if row and row.peak_bytes and row.before_bytes else None
        predicted = said["peak_bytes"]
        ratio = f"{predicted / rise:.2f}" if predicted and rise and max(predicted, rise) >= _JUDGED_BYTES else ""
        measured = size(rise) if rise else "not run" if row is None else f"{row.ended.replace('_', ' ')}"
        words = size(predicted) if predicted else cell(said["why"])
        yield f"| {path.parts[-3]} | {path.parts[-2]} | {stack} | {words} | {measured} | {ratio} |"


def plots(found: dict[str, dict[str, StackRow | Row]]) -> None:
    """The steps that were not steady, by phase; and the steady steps."""
    models = [model for model, each in found.items() if any(isinstance(row, StackRow) for row in each.values())]
    figure, axes = pyplot.subplots(3, 3, figsize=(15, 11), constrained_layout=True)
    shown: dict[str, object] = {}
    for model, axis in zip(models, axes.flat, strict=False):
        rows = {stack: row for stack, row in found[model].items() if isinstance(row, StackRow)}
        left = dict.fromkeys(rows, 0.0)
        for phase in dict.fromkeys(name for row in rows.values() for name in row.phases):
            known = OURS.phases.get(phase)
            widths = [row.phases.get(phase, 0) / 1e9 for row in rows.values()]
            tone = known.light if known else "#b4bac2"
            bars = axis.barh(list(rows), widths, left=list(left.values()), color=tone)
            left = {stack: at + width for (stack, at), width in zip(left.items(), widths, strict=True)}
            if sum(widths) > 0.01 * sum(left.values()):
                shown[OURS.phase(phase) if phase != UNATTRIBUTED else phase] = bars
        axis.set(title=model, xlabel="s")
        axis.invert_yaxis()
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=6)
    figure.suptitle("The steps that were not steady, by phase")
    figure.savefig(DOCS / "stack-wars-first.png", dpi=80)
    figure, axis = pyplot.subplots(figsize=(13, 5), constrained_layout=True)
    width = 0.8 / len(STACKS)
    for n, stack in enumerate(STACKS):
        known_rows = [(at, found[model].get(stack)) for at, model in enumerate(models)]
        points = [(at, row.steady_ns / 1e6) for at, row in known_rows if isinstance(row, StackRow) and row.steady_ns]
        axis.bar([at + n * width for at, _ in points], [ms for _, ms in points], width, label=stack)
    axis.set(yscale="log", ylabel="ms", title="A steady step")
    axis.set_xticks([at + 0.4 for at in range(len(models))], models)
    axis.legend(ncols=len(STACKS))
    figure.savefig(DOCS / "stack-wars-steady.png", dpi=80)


if __name__ == "__main__":
    main()
