"""Keeps what `make bench` measured, by commit, and tells it beside its goals and what was measured before.

The kept figures are `benchmarks/figures.json`; the first table of docs/evidence/costs.md is made of the latest two.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = HERE / "figures.json"
COSTS = HERE.parent / "docs/evidence/costs.md"
BEGIN, END = "<!-- figures of make bench -->", "<!-- end of figures -->"


@dataclass(frozen=True, slots=True)
class Figure:
    """One that has a goal; `null` is the same of nothing against nothing, where it is a ratio."""

    name: str
    title: str
    goal: float
    unit: str
    of: Callable[[dict[str, Any]], float]
    null: Callable[[dict[str, Any]], float] | None = None


def _start(framework: str) -> Callable[[dict[str, Any]], float]:
    return lambda results: sum(results["start_and_end"][framework]) / 1e6


def _ratio(of: str) -> tuple[Callable[[dict[str, Any]], float], Callable[[dict[str, Any]], float]]:
    return lambda results: results["tracing"][of]["ratio"], lambda results: results["tracing"][of]["null_ratio"]


def _counted(of: str, which: str, *, share: bool) -> Callable[[dict[str, Any]], float]:
    def found(results: dict[str, Any]) -> float:
        row = results["compiles"][of][which]
        return float(100 * row["hooks"] / row["took"] if share else row["hooks"] / 1e6)

    return found


FIGURES = (
    Figure("marks", "a traced step above a bare `with`, on its thread", 3, "µs",
           lambda results: (results["marks"]["traced_ns"] - results["marks"]["bare_with_ns"]) / 1e3),
    Figure("drain", "a traced step, on the drain's thread", 5, "µs",
           lambda results: results["marks"]["drain_ns"] / 1e3),
    Figure("nothing", "import, enter and leave, nothing imported before", 60, "ms", _start("nothing")),
    Figure("jax", "the same after `import jax`", 60, "ms", _start("jax")),
    Figure("torch", "the same after `import torch`", 60, "ms", _start("torch")),
    Figure("jax_first", "our hooks in a process's first JAX compile, of 0.1 s, counted", 3, "ms",
           _counted("jax short", "first", share=False)),
    Figure("jax_short", "in a later one", 3, "ms", _counted("jax short", "later", share=False)),
    Figure("jax_long", "in a later one of more than 1 s", 1, "%", _counted("jax long", "later", share=True)),
    Figure("torch_first_ms", "in a process's first torch.compile, of 0.5 s beside its imports", 3, "ms",
           _counted("torch short", "first", share=False)),
    Figure("torch_short", "in a later one, of 0.2 s", 3, "ms", _counted("torch short", "later", share=False)),
    Figure("torch_long", "in a later one of more than 1 s", 1, "%", _counted("torch long", "later", share=True)),
    Figure("tensorflow_long", "in a later one of TensorFlow's by XLA, of more than 1 s", 1, "%",
           _counted("tensorflow long", "later", share=True)),
    Figure("jax_compile", "the same JAX compile of 0.1 s, on ÷ off", 1.03, "", *_ratio("jax_compile")),
    Figure("torch_compile", "the same torch.compile of 0.2 s, on ÷ off", 1.02, "", *_ratio("torch_compile")),
    Figure("report", "`report` of 1,000,000 steps", 10, "s", lambda results: results["reading"]["report_s"]),
    Figure("report_mib", "its memory", 200, "MiB", lambda results: results["reading"]["report_mib"]),
    Figure("inferred", "`report` of as many that are inferred", 10, "s",
           lambda results: results["reading"]["inferred_s"]),
    Figure("inferred_mib", "its memory", 200, "MiB", lambda results: results["reading"]["inferred_mib"]),
    Figure("check", "`check` of the first", 5, "s", lambda results: results["reading"]["check_s"]),
    Figure("page", "its HTML page", 2, "MB", lambda results: results["reading"]["page_bytes"] / 1e6),
)  # fmt: skip


def keep(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Add these results to what is kept, and make the table of costs anew; all that is kept."""
    runs = json.loads(KEPT.read_text()) if KEPT.exists() else []
    said = {"commit": _git("rev-parse", "--short", "HEAD"), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    figures = {row.name: row.of(results) for row in FIGURES}
    nulls = {row.name: row.null(results) for row in FIGURES if row.null is not None}
    run = said | {"release": _git("describe", "--tags", "--exact-match"), "machine": results["machine"]}
    runs = [*(each for each in runs if each["commit"] != run["commit"]), run | {"figures": figures, "nulls": nulls}]
    KEPT.write_text(json.dumps(runs, indent=1) + "\n")
    text = COSTS.read_text()
    if BEGIN in text:
        before, rest = text.split(BEGIN)
        COSTS.write_text("\n".join([f"{before}{BEGIN}", *table(runs), f"{END}{rest.split(END)[1]}"]))
    return list(runs)


def table(runs: list[dict[str, Any]]) -> list[str]:
    """The latest figures beside their goals, those of the last release (else of the commit before), and the nulls."""
    *earlier, now = runs
    then = next((run for run in reversed(earlier) if run["release"]), earlier[-1] if earlier else None)
    heads = [now["commit"], "goal", then["release"] or then["commit"] if then else "before", "null"]
    lines = [f"| CPU, medians | {' | '.join(heads)} |", "| --- | ---: | ---: | ---: | ---: |"]
    for row in FIGURES:
        was = then["figures"].get(row.name) if then else None
        null = now["nulls"].get(row.name)
        goal = f"≤ {row.goal:g} {row.unit}".rstrip()
        lines.append(f"| {row.title} | {_said(row, now['figures'][row.name])} | {goal} | {_said(row, was)} | "
                     f"{_said(row, null)} |")  # fmt: skip
    return lines


def _said(row: Figure, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if not row.unit else f"{value:,.2f} {row.unit}" if value < 10 else f"{value:,.0f} {row.unit}"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()
