"""Writes docs/recompiles.md: each cause and graph break with a program that provokes it, and the report it really gave.

What is said of them is in mechanisms.toml. The part of a stack that did not run stays as it is in the file.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import scenarios
from coldstep.model import GraphBreak, Location, Recompile, Trace
from coldstep_viewers.report.sentences import cause
from coldstep_viewers.report.terminal import render
from scenarios.matrix import CAUSES

TITLES = {"jax": "JAX", "torch": "torch.compile", "torch_xla": "torch_xla", "tensorflow": "TensorFlow"}
BREAKS = ("data_dependent", "side_effect", "unsupported_call", "explicit", "skipped_frame", "host_read", "other")
"""The kinds of graph breaks, in the order in which they are shown."""
_WIDTH = 120
_HEAD = """\
# Why it recompiled

Each cause that coldstep names, with a small program that provokes it, the report that this program gave, and what to
change; below each, the other programs of the same cause and what was reported of them. The programs are those of
[tests/scenarios](../tests/scenarios), where the `# expect:` lines are what the tests hold the report to; JAX sees two
CPU devices. The costs are left out of the reports: they differ from run to run. Words in the reports that are new to
you are in the [glossary](glossary.md).

This file is generated: `cd tests && ../.venv/bin/python -m scenarios --catalogue ../docs/recompiles.md` runs every
program and writes down what was reported. What is said about each cause comes from
[mechanisms.toml](../tests/scenarios/mechanisms.toml).

In the table: how many programs there are of each cause, and the way to them.
"""
_NOTHING = """\
### {title}: nothing

What looks as if it would compile again, and does not. A recompile reported for one of these is an error.
"""
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
    """What mechanisms.toml says of a cause, or a kind of graph break, in a stack; and the programs that expect it."""

    stack: str
    about: str
    fix: str
    of: str
    """`recompile`, `break`."""
    name: str
    program: Path
    others: list[Path]

    @property
    def heading(self) -> str:
        return f"### {TITLES[self.stack]}: {'graph break, ' if self.of == 'break' else ''}{self.name}"


def entries(stack: str) -> list[Entry]:
    """One for each cause and each kind of break that a program of the stack expects, in the taxonomy's order."""
    said = tomllib.loads((scenarios.HERE / "mechanisms.toml").read_text()).get(stack, {})
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
    return found + [_entry(stack, "break", name, broken, breaks) for name in sorted(broken, key=BREAKS.index)]


def _entry(stack: str, of: str, name: str, programs: dict[str, list[Path]], said: dict[str, Any]) -> Entry:
    if name not in said:
        raise CatalogueError(f"mechanisms.toml says nothing of the {of} {name} in {stack}")
    program = scenarios.HERE / stack / f"{said[name]['program']}.py"
    if program not in programs[name]:
        raise CatalogueError(f"{stack}/{program.stem} does not expect {name}")
    others = [path for path in programs[name] if path != program]
    return Entry(stack, said[name]["about"].strip(), said[name]["fix"].strip(), of, name, program, others)


def write(file: Path, results: Mapping[Path, Trace | Exception], folder: str) -> None:
    """Write the catalogue to `file`, from the traces that the programs left in the folder named `folder`."""
    old = file.read_text() if file.exists() else ""
    ran = {path.parent.name for path in results}
    found = {stack: entries(stack) for stack in TITLES if scenarios.programs(stack)}
    portable = _Portable(folder)
    parts = [_part(stack, found[stack], results, portable) if stack in ran else _kept(old, stack) for stack in found]
    file.write_text("\n".join([_HEAD, _contents(found), *filter(None, parts)]))


def _kept(old: str, stack: str) -> str:
    """The stack's part of the file as it is."""
    match = re.search(rf"^## {re.escape(TITLES[stack])}\n.*?(?=^## |\Z)", old, re.MULTILINE | re.DOTALL)
    return f"{match[0].rstrip()}\n" if match else ""


def _contents(found: dict[str, list[Entry]]) -> str:
    """A table of causes and stacks."""
    lines = [f"| | {' | '.join(f'[{TITLES[stack]}](#{_anchor(TITLES[stack])})' for stack in found)} |"]
    lines.append("| --- |" + " ---: |" * len(found))
    cells = {(e.of, e.name, stack): e for stack, mine in found.items() for e in mine}
    for of, names in (("recompile", CAUSES), ("break", BREAKS)):
        for name in names:
            row = [cells.get((of, name, stack)) for stack in found]
            if any(row):
                counts = (f"[{1 + len(e.others)}](#{_anchor(e.heading)})" if e else "" for e in row)
                lines.append(f"| {'graph break, ' if of == 'break' else ''}{name} | {' | '.join(counts)} |")
    quiet = (
        f"[{len(_quiet(stack))}](#{_anchor(_NOTHING.format(title=TITLES[stack]).splitlines()[0])})" for stack in found
    )
    return "\n".join([*lines, f"| nothing | {' | '.join(quiet)} |", ""])


def _part(stack: str, found: list[Entry], results: Mapping[Path, Trace | Exception], portable: _Portable) -> str:
    lines = [f"## {TITLES[stack]}", ""]
    for entry in found:
        block = _block(entry, _ran(results, entry.program), portable)
        lines += [entry.heading, "", _filled(entry.about), "", _filled(f"**Fix:** {entry.fix}"), ""]
        lines += [f"```python\n{entry.program.read_text().rstrip()}\n```", "", f"```text\n{block}\n```", ""]
        if entry.others:
            lines += ["More of them:", ""]
            lines += [_listed(path) + _briefly(entry, _ran(results, path), portable) for path in entry.others]
            lines.append("")
    quiet = [_listed(path) for path in _quiet(stack)]
    return "\n".join([*lines, _NOTHING.format(title=TITLES[stack]), *quiet, ""])


def _quiet(stack: str) -> list[Path]:
    return [path for path in scenarios.programs(stack) if path.stem.startswith("nothing_")]


def _ran(results: Mapping[Path, Trace | Exception], program: Path) -> Trace:
    result = results.get(program)
    if not isinstance(result, Trace):
        raise CatalogueError(f"{program.parent.name}/{program.stem} did not run: {result or 'it is new'}")
    return result


def _anchor(heading: str) -> str:
    """The name that a heading has in a link, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def _listed(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    about = " ".join(docstring.partition("\n\n")[0].split())
    return f"- [{path.stem}](../tests/scenarios/{path.parent.name}/{path.name}): {about}"


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


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
