"""The figures of one trace, gathered in each of the places where people look."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import browser as tools
import in_tensorboard
from playwright.sync_api import Browser

from coldstep.model import UNATTRIBUTED


@dataclass(slots=True)
class Figures:
    """Nanoseconds: of each step, of each phase over the whole run; and the text of each finding. What a place does not
    show is empty."""

    steps: dict[str, int] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    compiles: list[int] = field(default_factory=list)


def coldstep(*arguments: object) -> str:
    done = subprocess.run([sys.executable, "-m", "coldstep", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_json(trace: Path) -> Figures:
    document = json.loads(coldstep("report", trace, "--json"))
    steps, phases = {}, Counter[str]()
    for row in document["intervals"]:
        phases.update(row["phases"] | {UNATTRIBUTED: row["unattributed_ns"]})
        if row["kind"] == "step":
            steps[f"{row['name']} {row['step']} {row['label']}"] = row["wall_ns"]
    return Figures(
        steps, +phases, [row["text"] for row in document["findings"]],
        sorted((row["wall_ns"] for row in document["compiles"]), reverse=True),
    )  # fmt: skip


def in_sql(trace: Path) -> Figures:
    def rows(statement: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in coldstep("sql", trace, statement, "--json").splitlines()]

    steps = rows("select concat_ws(' ', name, step, label) as title, wall_ns from intervals where kind = 'step'")
    phases = rows("select phase, sum(ns) as ns from phases group by all having sum(ns) > 0")
    return Figures(
        {row["title"]: row["wall_ns"] for row in steps},
        {row["phase"]: row["ns"] for row in phases},
        [row["text"] for row in rows("select text from findings order by cast(substr(finding, 2) as int)")],
        [row["wall_ns"] for row in rows("select wall_ns from compiles order by wall_ns desc")],
    )


def in_xprof(trace: Path, folder: Path) -> Figures:
    shown = in_tensorboard.events(Path(coldstep("export", trace, "--to", "tensorboard", folder).strip()))
    phases: Counter[str] = Counter()
    for row in shown:
        phases[row.name] += row.wall_ns if row.line == "Step phases" else 0
    return Figures(
        {row.name: row.wall_ns for row in shown if row.line == "Steps"},
        +phases,
        [row.args["text"] for row in shown if row.line == "Findings"],
    )


def on_the_page(trace: Path, folder: Path, browser: Browser) -> Figures:
    """What the page shows, and what it draws its bars from: there is a bar for each step."""
    page = folder / "page.html"
    coldstep("report", trace, "--html", page)
    with tools.opened(browser, page) as seen:
        titles = seen.page.locator("figure.steps h3").all_inner_texts()
        kinds = seen.page.evaluate("JSON.parse(document.getElementById('data').textContent).kinds")
        compiles = seen.page.evaluate("JSON.parse(document.getElementById('data').textContent).compiles.rows")
        findings = seen.page.locator("details.finding .text").all_text_contents()
    steps = {
        f"{title} {bar['from']} {next(iter(bar['labels']))}": bar["ns"]
        for title, kind in zip(titles, kinds, strict=True)
        for bar in kind["bars"]
    }
    return Figures(steps, {}, findings, [row[7] for row in compiles])
