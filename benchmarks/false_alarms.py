"""How often coldstep says that something compiled unseen where all was seen: over every scenario, the demo, the stack
wars of the smallest size, and traces that are there (those that `make shows` leaves in its working folders).

`make false-alarms` prints the table of docs/evidence/false-alarms.md. A collector that is late or partial says so by
itself, and is not counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import scenarios
from scenarios.runner import run_all

import coldstep
from coldstep.analysis.unobserved import unseen_route, untraced, untraced_words
from coldstep.errors import TraceError
from coldstep.model import Trace

ROOT = Path(__file__).parents[1]
_COMMANDS = {
    "demo": ("make demo", [str(ROOT / "examples/demo.py")]),
    "wars": ("stack_wars, tiny", ["-m", "benchmarks.stack_wars", "--size", "tiny", "-o", "."]),
}
"""Beside the scenarios: what is counted, and what is run."""


@dataclass(slots=True)
class Counted:
    """Traces of one kind, and where the net spoke."""

    kind: str
    traces: int = 0
    spoke: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    least_ns: int = 0
    """The most compiling outside of all compiles that was below what it speaks of."""

    def add(self, name: str, trace: Trace) -> None:
        """Count one."""
        self.traces += 1
        said = [unseen_route(trace), untraced_words(untraced(trace))]
        self.spoke += [f"{name}: {text}" for text in said if text is not None]
        if said[0] is None:
            self.least_ns = max(self.least_ns, sum(row.work_ns for row in trace.unplaced))


def of_scenarios(stack: str, folder: Path) -> Counted:
    """Every program of a stack."""
    counted = Counted(f"scenarios, {stack}")
    programs = scenarios.programs(stack)
    for program, result in zip(programs, run_all(programs, folder), strict=True):
        if isinstance(result, Exception):
            counted.failed.append(f"{program.stem}: {type(result).__name__}")
        else:
            counted.add(program.stem, result)
    return counted


def of_command(kind: str, folder: Path, *words: str) -> Counted:
    """All traces that a command leaves in a folder."""
    folder.mkdir()
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    counted = Counted(kind)
    if done.returncode:
        counted.failed.append(f"exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    return _of_traces(counted, folder)


def _of_traces(counted: Counted, folder: Path) -> Counted:
    for path in sorted(folder.rglob("*.pftrace")):
        try:
            counted.add(str(path.relative_to(folder).with_suffix("")), coldstep.load(path))
        except TraceError as error:
            counted.failed.append(str(error).replace(str(folder), ""))
    if not counted.traces:
        counted.failed.append("no trace was left")
    return counted


def table(rows: list[Counted]) -> Iterator[str]:
    """As Markdown, and a line for each time that it spoke."""
    yield "| | traces | spoke | the most below 100 ms |"
    yield "| --- | ---: | ---: | ---: |"
    for row in rows:
        yield f"| {row.kind} | {row.traces} | {len(row.spoke)} | {row.least_ns / 1e6:.1f} ms |"
    for row in rows:
        yield from (f"\n- {row.kind}, {text}" for text in row.spoke)
        yield from (f"\n- {row.kind}: not run: {text}" for text in row.failed)


def main() -> int:
    """Run what is asked for, and print the table; the exit code is 1 where the net spoke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", help="stacks, demo, wars, folders of traces; default: all but folders")
    options = parser.parse_args()
    stacks = [stack for stack in scenarios.ENVIRONMENTS if scenarios.interpreter(stack)]
    rows = []
    with tempfile.TemporaryDirectory(prefix="coldstep-alarms-") as name:
        folder = Path(name).resolve()
        for what in options.what or [*stacks, *_COMMANDS]:
            if what in scenarios.ENVIRONMENTS:
                rows.append(of_scenarios(what, folder))
            elif what in _COMMANDS:
                kind, words = _COMMANDS[what]
                rows.append(of_command(kind, folder / what, sys.executable, *words))
            else:
                rows.append(_of_traces(Counted(what), Path(what)))
    print("\n".join(table(rows)))
    return 1 if any(row.spoke or not row.traces for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
