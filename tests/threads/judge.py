"""Judges one program: runs it under coldstep, holds the first answer against the header, and follows the advice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coldstep
from coldstep.model import Finding, Remedy, Trace
from coldstep_viewers.report.terminal import render

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))
SECOND = sorted(Path(__file__).with_name("second").glob("*.py"))
"""Taken by somebody who had not read coldstep, after it was mended for the others; nothing is mended for these."""
THIRD = sorted(Path(__file__).with_name("third").glob("*.py"))
"""Taken before coldstep's analysis was read, after it was mended for the second set."""
FOURTH = sorted(Path(__file__).with_name("fourth").glob("*.py"))
"""Taken before coldstep's analysis was read, after it was mended for the third set."""
FIFTH = sorted(Path(__file__).with_name("fifth").glob("*.py"))
"""Taken before coldstep's analysis was read, after it was mended for the fourth set."""
SIXTH = sorted(Path(__file__).with_name("sixth").glob("*.py"))
"""Taken before coldstep's analysis was read, after it was mended for the fifth set."""
SEVENTH = sorted(Path(__file__).with_name("seventh").glob("*.py"))
"""Taken before coldstep's analysis was read, after it was mended for the sixth set."""
EIGHTH = sorted(Path(__file__).with_name("eighth").glob("*.py"))
"""Taken before coldstep's analysis was read, after it was mended for the seventh set."""
NINTH = sorted(Path(__file__).with_name("ninth").glob("*.py"))
"""Taken before coldstep's analysis was read, after it was mended for the eighth set."""
SETS = {"second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH, "sixth": SIXTH,
        "seventh": SEVENTH, "eighth": EIGHTH, "ninth": NINTH}  # fmt: skip
TIMEOUT_S = 300
_WIDTH = 100
_BEGINS = ("What to change", "Nothing to change")
_KINDS = {
    "fast_path_miss": ("fast_path_miss",),
    "callback": ("fast_path_miss", "cache_miss"),
    "silent_eager": ("silent_eager", "cache_limit", "skipped_forever", "uncompiled"),
    "failed_compile": ("failed_compile",),
    "other: operand that XLA needs at compile time": ("failed_compile",),
    "eager_compiles": ("eager_compiles",),
    "cache_miss": ("cache_miss",),
    "unrolled": ("unrolled",),
    "config": ("thread_limit",),
    "other: DDP buckets split the graph": ("split_graph",),
    "other: the compiled wrapper is bypassed": ("uncompiled",),
    "other: the first trace makes variables": ("second_trace",),
}
"""By mechanism, the kinds of findings that name it."""

_STALE = ("baked_constant", "global", "closure", "module_attribute")
"""Of these also that a program goes on with the value of before, where it is not compiled again."""


@dataclass(slots=True)
class Run:
    """A run under coldstep."""

    code: int
    printed: list[str]
    trace: Trace | None


@dataclass(slots=True)
class Judged:
    """How one thread came out."""

    name: str
    cause: str
    """yes, partly, no, wrong; "did not run"."""
    advice: str
    """cures, partly, no effect, worse, cannot be followed, none."""
    losses: str
    """equal, close, differ, or "" where nothing was followed."""
    line: int | None
    """The line of the report on which its answer begins."""
    lines: int
    """How many the report has."""
    first: str = ""
    """The first answer."""
    also: list[str] = field(default_factory=list)


def header(program: Path) -> dict[str, Any]:
    """The thread's answer, as it stands at the end of the program."""
    block = re.search(r"^# /// thread\n(.*?)^# ///$", program.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None, program
    return tomllib.loads("\n".join(line.removeprefix("#").removeprefix(" ") for line in block[1].splitlines()))


def judge(program: Path) -> Judged:
    """Run it, and what follows from it."""
    about = header(program)
    with tempfile.TemporaryDirectory(prefix="coldstep-thread-") as folder:
        before = _run(program, Path(folder, "before"), {})
        if before.trace is None:
            return Judged(program.stem, "did not run", "none", "", None, 0)
        trace = before.trace
        report = render(trace, _WIDTH).split("\n")
        line = next((at for at, text in enumerate(report, 1) if text.startswith(_BEGINS)), None)
        groups, fits = _stories(trace), answered(trace, about)
        elsewhere = any(_names(trace, row, about) for row in trace.findings)
        cause = "yes" if fits[:1] == [True] else "partly" if any(fits) or elsewhere else "no"
        judged = Judged(program.stem, cause, "none", "", line, len(report))
        judged.first = trace.answers[0].text if groups else report[(line or 1) - 1]
        if groups:
            judged.also = [row.text for row in trace.answers[1:]]
            chosen = groups[fits.index(True)] if any(fits) else groups[0]
            _follow(program, Path(folder, "after"), before, chosen[0], about, judged)
        return judged


def _stories(trace: Trace) -> list[list[Finding]]:
    """The findings of each answer."""
    by_id = {row.id: row for row in trace.findings}
    return [[by_id[row.finding], *(by_id[id_] for id_ in row.also)] for row in trace.answers]


def answered(trace: Trace, about: dict[str, Any]) -> list[bool]:
    """Of each answer, whether it is the thread's."""
    return [any(_names(trace, finding, about) for finding in story) for story in _stories(trace)]


def _run(program: Path, folder: Path, environment: dict[str, str]) -> Run:
    folder.mkdir()
    shutil.copy(program, folder / "program.py")
    command = ["coldstep", "run", "--no-live", "-o", "run.pftrace", "program.py"]
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"}
    variables = {**os.environ, **caches, **environment}
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, env=variables, capture_output=True, text=True,
                          timeout=TIMEOUT_S)  # fmt: skip
    printed = [line for line in done.stdout.splitlines() if line.startswith(("loss", "value"))]
    path = folder / "run.pftrace"
    return Run(done.returncode, printed, coldstep.load(path) if path.exists() else None)


def _names(trace: Trace, finding: Finding, about: dict[str, Any]) -> bool:
    """Whether a finding is of that mechanism and, where there is one, that argument."""
    mechanism = about["mechanism"]
    rows = [row for row in trace.recompiles if row.id in finding.refs]
    argument = _plain(about["argument"])
    if any(row.cause == mechanism for row in rows):
        paths = {row.argument for row in rows} | {each.argument for row in rows for each in row.changes}
        named = {_plain(path) for path in paths if path}
        texts = _plain(f"{finding.text} {finding.advice}")
        return not argument or any(_alike(argument, name) for name in named) or argument in texts
    if any(line.startswith(f"{mechanism},") for line in finding.evidence):  # of several modules
        return not argument or argument in _plain(finding.text)
    if mechanism == "new_function" and "for inputs of the same types" in finding.text:  # an operation by itself
        return argument in _plain(f"{finding.text} {_quoted(trace, finding)}")
    if mechanism.startswith("other: graph break"):
        texts = f"{finding.text} {finding.evidence} {_quoted(trace, finding)}"
        return finding.kind == "graph_break" and argument in _plain(texts)
    if mechanism.startswith("graph_break:"):
        of_kind = finding.kind == "graph_break" and f"({mechanism.partition(':')[2]})" in finding.text
        return of_kind or (finding.kind == "uncompiled" and mechanism == "graph_break:skipped_frame")
    if mechanism == "host_read":
        return finding.kind == "graph_break" and "(host_read)" in finding.text
    if finding.kind == "stale_capture" and mechanism in _STALE:
        return argument in _plain(finding.text)
    return finding.kind in _KINDS.get(mechanism, ()) or finding.kind == mechanism


def _quoted(trace: Trace, finding: Finding) -> str:
    """The line that the report quotes below the answer."""
    at = finding.location
    return trace.code.get((at.file, at.line), "") if at is not None else ""


def _plain(argument: str) -> str:
    return re.sub(r"[\s'\"\[\]().]", "", argument)


def _alike(wanted: str, named: str) -> bool:
    """Whether one path ends in, or begins with, the other: `batch['x']` and `x`."""
    return bool(named) and (wanted.endswith(named) or named.endswith(wanted) or named.startswith(wanted))


def _follow(program: Path, folder: Path, before: Run, finding: Finding, about: dict[str, Any], to: Judged) -> None:
    remedy = next((row for row in finding.remedies if row.code or row.environment), None)
    if remedy is None:
        to.advice = "cannot be followed" if any(row.how != "none" for row in finding.remedies) else "none"
        return
    edited = program
    if remedy.code:
        folder.parent.joinpath("edited").mkdir()
        edited = folder.parent / "edited" / program.name
        edited.write_text(followed(program.read_text(), remedy))
    after = _run(edited, folder, remedy.environment)
    if after.trace is None or (after.code and not before.code):
        to.advice = "worse"
        return
    assert before.trace is not None
    stale = any(row.kind == "stale_capture" and _names(before.trace, row, about) for row in before.trace.findings)
    was, now = (_count(run.trace, about, stale=stale) for run in (before, after) if run.trace is not None)
    to.advice = "cures" if now == 0 and was else "partly" if now < was else "worse" if now > was else "no effect"
    to.losses = _losses(before.printed, after.printed)


def _count(trace: Trace, about: dict[str, Any], *, stale: bool) -> int:
    """How often what the thread is about was seen; where a value was `stale`, the compile that sees it is wanted."""
    found = about["mechanism"] in _KINDS and not any(row.cause == about["mechanism"] for row in trace.recompiles)
    again = [] if found or stale else list(trace.recompiles)
    others = [row for row in trace.findings if row.kind != "recompile" and _names(trace, row, about)]
    broken = [row for row in trace.graph_breaks if about["mechanism"].startswith("graph_break:")]
    counted = {row.id for row in trace.recompiles}  # of a finding on these, each is
    # of an operation that compiled by itself, each time after the first one
    seen = [max(1, len(row.refs) - 1) if row.kind == "eager_compiles" else 1
            for row in others if not counted.intersection(row.refs)]  # fmt: skip
    return len(again) + sum(seen) + len(broken)


def followed(source: str, remedy: Remedy) -> str:
    """The program with the remedy's code at its line."""
    assert remedy.location is not None
    lines = source.split("\n")
    at = remedy.location.line - 1
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    written = [f"{indent}{line}" for line in remedy.code.split("\n")]
    lines[at : at + remedy.lines] = {
        "instead": written,
        "above": [*written, lines[at]],
        "below": [lines[at], *written],
    }[remedy.put]
    return "\n".join(lines)


def _losses(before: list[str], after: list[str]) -> str:
    if before == after:
        return "equal"
    numbers = [
        [float(word) for line in lines for word in line.split()[1:] if _is_number(word)] for lines in (before, after)
    ]
    if len(numbers[0]) != len(numbers[1]):
        return "differ"
    close = all(abs(a - b) <= 1e-4 * max(1.0, abs(a)) for a, b in zip(*numbers, strict=True))
    return "close" if close else "differ"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
