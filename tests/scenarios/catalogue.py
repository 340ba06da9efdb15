"""Writes `examples` of the catalogue: a program for each cause and graph break, and the report it really gave.

What is said of them is in `causes` beside it. The file of a stack that did not run stays as it is.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import scenarios
from coldstep.model import GraphBreak, Location, Recompile, Trace
from coldstep_viewers.catalogue.pages import BREAKS, NOTHING
from coldstep_viewers.report.sentences import cause
from coldstep_viewers.report.terminal import render
from scenarios.matrix import CAUSES

CATALOGUE = Path(__file__).parents[2] / "viewers/coldstep_viewers/catalogue"
_SECTIONS = {"recompile": "Recompiles", "break": "Graph breaks"}
_DURATION = r"[\d.]+ (?:ns|µs|ms|s|min \d+ s|h \d+ min)"
_COST = re.compile(rf"(?:, cost |(?<= times), ){_DURATION}")
_LOST = re.compile(rf"{_DURATION}(?= of tracing)")
_ADDRESS = re.compile(r"\b(?:0x[0-9a-f]{6,}|\d{9,})\b")
_LIBRARIES = re.compile(r"/\S+?/site-packages/")


class CatalogueError(Exception):
    """The catalogue cannot be written; the text says why."""


@dataclass(slots=True)
class Entry:
    """What `causes` says of a cause, or a kind of graph break, in a stack; and the programs that expect it."""

    stack: str
    about: str
    fix: str
    of: str
    """`recompile`, `break`."""
    name: str
    program: Path
    others: list[Path]

    @property
    def key(self) -> str:
        return f"break.{self.name}" if self.of == "break" else self.name


def entries(stack: str) -> list[Entry]:
    """One for each cause and each kind of break that a program of the stack expects, in the taxonomy's order."""
    said = tomllib.loads((CATALOGUE / f"causes/{stack}.toml").read_text())
    recompiled: dict[str, list[Path]] = {}
    broken: dict[str, list[Path]] = {}
    for path in scenarios.programs(stack):
        scenario = scenarios.read(path)
        for mechanism in dict.fromkeys(row[0] for row in scenario.recompiles):
            recompiled.setdefault(mechanism, []).append(path)
        for kind in dict.fromkeys(scenario.says.get("break", [])):
            broken.setdefault(kind, []).append(path)
    found = [_entry(stack, "recompile", name, recompiled, said) for name in sorted(recompiled, key=CAUSES.index)]
    breaks = said.get("break", {})
    return found + [_entry(stack, "break", name, broken, breaks) for name in sorted(broken, key=[*BREAKS].index)]


def _entry(stack: str, of: str, name: str, programs: dict[str, list[Path]], said: dict[str, Any]) -> Entry:
    if name not in said:
        raise CatalogueError(f"causes/{stack}.toml says nothing of the {of} {name}")
    program = scenarios.HERE / stack / f"{said[name]['program']}.py"
    if program not in programs[name]:
        raise CatalogueError(f"{stack}/{program.stem} does not expect {name}")
    others = [path for path in programs[name] if path != program]
    return Entry(stack, said[name]["about"].strip(), said[name]["fix"].strip(), of, name, program, others)


def write(to: Path, results: Mapping[Path, Trace | Exception], folder: str) -> None:
    """Write the examples to the folder `to`, from the traces that the programs left in the folder named `folder`."""
    parts = {stack: _part(stack, results, _Portable(folder)) for stack in {path.parent.name for path in results}}
    for stack, part in parts.items():
        (to / f"{stack}.json").write_text(f"{json.dumps(part, indent=1, ensure_ascii=False)}\n")


def _part(stack: str, results: Mapping[Path, Trace | Exception], portable: _Portable) -> dict[str, dict[str, Any]]:
    part = {}
    for entry in entries(stack):
        more = [f"{summary(path)}{_briefly(entry, _ran(results, path), portable)}" for path in entry.others]
        report = _block(entry, _ran(results, entry.program), portable)
        part[entry.key] = {"program": entry.program.read_text().rstrip(), "report": report, "more": more}
    return part | {NOTHING: {"program": "", "report": "", "more": [summary(path) for path in _quiet(stack)]}}


def _quiet(stack: str) -> list[Path]:
    return [path for path in scenarios.programs(stack) if path.stem.startswith("nothing_")]


def _ran(results: Mapping[Path, Trace | Exception], program: Path) -> Trace:
    result = results.get(program)
    if not isinstance(result, Trace):
        raise CatalogueError(f"{program.parent.name}/{program.stem} did not run: {result or 'it is new'}")
    return result


def summary(path: Path) -> str:
    """A program's name, and what its docstring says of it."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return f"{path.stem}: {' '.join(docstring.partition(chr(10) * 2)[0].split())}"


# --- what was reported ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Portable:
    """Takes out of a report what differs from machine to machine."""

    folder: str

    def text(self, text: str) -> str:
        # PyTorch cuts off as many letters of a path as its own folder has
        return _ADDRESS.sub("…", _LIBRARIES.sub("", re.sub(rf"[^\s\"]*{self.folder}/", "", text)))

    def place(self, location: Location | None) -> Location | None:
        return location and replace(location, file=self.text(location.file))


def _rows(entry: Entry, trace: Trace) -> list[Recompile | GraphBreak]:
    """All that the report says of the entry's cause or kind."""
    recompiles: list[Recompile | GraphBreak] = [row for row in trace.recompiles if row.cause == entry.name]
    return recompiles if entry.of == "recompile" else [row for row in trace.graph_breaks if row.kind == entry.name]


def _briefly(entry: Entry, trace: Trace, portable: _Portable) -> str:
    """What the report says of a further program, in a line."""
    rows = _rows(entry, trace)
    if not rows:
        return ""
    first, more = rows[0], f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    said = portable.text(cause(first)) if isinstance(first, Recompile) else ""
    return f" `{said}`{more}" if said else ""


def _block(entry: Entry, trace: Trace, portable: _Portable) -> str:
    """What the report says first of the entry's cause or kind, without costs, addresses and paths."""
    rows = _rows(entry, trace)
    if not rows:
        raise CatalogueError(f"{entry.stack}/{entry.program.stem} reports no {entry.name}")
    # the report tells many of a kind together
    together = {ref for finding in trace.findings if finding.kind == "repeat_offender" for ref in finding.refs}
    told: list[Recompile] = []
    broken: list[GraphBreak] = []
    for row in rows if rows[0].id in together else rows[:1]:
        if isinstance(row, GraphBreak):
            broken.append(replace(row, location=portable.place(row.location), reason=portable.text(row.reason)))
        elif row is rows[0] or row.id in together:
            told.append(replace(row, evidence=list(map(portable.text, row.evidence))))
    compiles = [
        replace(each, location=portable.place(each.location), caller=portable.place(each.caller))
        for each in trace.compiles
    ]
    code = {(portable.text(file), line): text for (file, line), text in trace.code.items()}
    report = render(replace(trace, recompiles=told, graph_breaks=broken, compiles=compiles, code=code), every=True)
    block = re.search(rf"^{_SECTIONS[entry.of]} \(\d+\)\n(.*?)(?=\n\n|\Z)", report, re.MULTILINE | re.DOTALL)
    if block is None:
        raise CatalogueError(f"the report on {entry.program.stem} has no section {_SECTIONS[entry.of]}")
    return _LOST.sub("…", _COST.sub("", textwrap.dedent(block[1])))
