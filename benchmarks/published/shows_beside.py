"""Published programs on two releases: whether coldstep finds the same steps and names the same causes on both.

`python benchmarks/published/shows_beside.py OLD NEW NAMES… --output PAGE`: the Pythons of two environments that
have what the programs of shows.toml import. A program that fails with coldstep is run without, too.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import shows

from coldstep.model import Trace

_PACKAGES = ("jax", "jaxlib", "flax", "equinox", "optax", "numpy")
_HEAD = """\
# Published programs on JAX {new}, beside {old}

Run on {date} by `benchmarks/published/shows_beside.py` at {commit}, {cores} cores. Each program of
[shows.md](shows.md) is at the same commit and as short as there, and was run once on each release under `coldstep
run`, as it is. *Same*: the same steps by the same rule, settled at the same step, and the same recompiles by cause,
argument and values. Where a program fails, it is run without coldstep, too, and the line with which it then ends stands
there.

- old: {old_packages}
- new: {new_packages}

| program | steps, old / new | settled | recompiles | compiles | |
| --- | --- | --- | --- | --- | --- |
"""


@dataclass(slots=True)
class Facts:
    """What a report says of a program."""

    steps: int
    by: str
    """The rule, what it is of, and the line."""
    settled: int | None
    causes: list[str]
    """Of each recompile: the cause, the argument, and both values."""
    compiles: int


def facts(trace: Trace) -> Facts:
    """Those of a trace."""
    main = max(shows.steps_of(trace).values(), key=lambda steps: len(steps.rows), default=shows.Steps([], None))
    by = main.rows[0].inferred_by if main.rows else None
    at = f":{by.location.line}" if by and by.location else ""
    causes = [f"{row.cause} {row.argument} {row.before} -> {row.after}" for row in trace.recompiles]
    return Facts(len(main.rows), f"{by.rule}: {by.of}{at}" if by else "none", main.settled, causes, len(trace.compiles))


def of(program: shows.Program, python: str, mirror: Path | None, work: Path) -> Facts | str:
    """What its run says; or the line with which it ends, and whether it does so without coldstep as well."""
    source = shows.fetched(program, mirror)
    try:
        ran = shows.run(program, shows.copy(program, source, work), work, [], python)
    except shows.ShowError as error:
        try:
            shows.run(program, shows.copy(program, source, work), work, None, python)
        except shows.ShowError as alone:
            return f"fails without coldstep, too: {str(alone).splitlines()[-1]}"
        return f"FAILS UNDER COLDSTEP ALONE: {str(error).splitlines()[-1]}"
    assert ran.trace is not None
    return facts(ran.trace)


def row(program: shows.Program, old: Facts | str, new: Facts | str) -> tuple[str, bool]:
    """A line of the table, and whether both are the same."""
    link = f"[{program.name}]({program.link})"
    if isinstance(old, str) or isinstance(new, str):
        words = "; ".join(f"{name}: {each}" for name, each in (("old", old), ("new", new)) if isinstance(each, str))
        return f"| {link} | | | | | {words} |", "ALONE" not in words
    same = (old.steps, old.by, old.settled, old.causes) == (new.steps, new.by, new.settled, new.causes)
    causes = _listed(old.causes) if old.causes == new.causes else f"{_listed(old.causes)} / {_listed(new.causes)}"
    cells = (f"{old.steps} / {new.steps}", f"{old.settled} / {new.settled}", causes, f"{old.compiles} / {new.compiles}")
    verdict = "same" if same else f"differs: {old.by} / {new.by}"
    return f"| {' | '.join((link, *cells, verdict))} |", same


def _listed(causes: list[str]) -> str:
    return "; ".join(causes).replace("|", "\\|") or "none"


def packages(python: str) -> str:
    """The releases there, with Python's own."""
    program = (
        "import importlib.metadata as m, platform; "
        f"print('Python', platform.python_version(), *(f', {{n}} {{m.version(n)}}' for n in {_PACKAGES}), sep='')"
    )
    return subprocess.check_output([python, "-c", program], text=True).strip().replace("Python", "Python ")


def main() -> int:
    """Run the programs that are named, and write the page. The exit code is 1 where one is not the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="the Python of one environment")
    parser.add_argument("new", help="that of the other")
    parser.add_argument("names", nargs="+", help="programs of shows.toml")
    parser.add_argument("--mirror", type=Path, help="a folder of clones, owner+name/repo, in the place of GitHub")
    parser.add_argument("--work", type=Path, default=shows.CACHE / "beside", help="where the programs run")
    parser.add_argument("--output", type=Path, required=True, help="write the page here")
    given = parser.parse_args()
    pythons = [os.path.abspath(each) for each in (given.old, given.new)]
    rows = []
    for program in shows.programs():
        if program.name in given.names:
            old, new = (of(program, python, given.mirror, given.work / program.name) for python in pythons)
            rows.append(row(program, old, new))
            print(rows[-1][0], flush=True)
    both = [packages(python) for python in pythons]
    releases = [each.partition("jax ")[2].partition(",")[0] for each in both]
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=shows.HERE, text=True).strip()
    head = _HEAD.format(
        old=releases[0], new=releases[1], old_packages=both[0], new_packages=both[1], commit=commit,
        date=datetime.date.today(), cores=os.cpu_count(),
    )  # fmt: skip
    given.output.write_text(head + "\n".join(line for line, _ in rows) + "\n")
    return int(not all(same for _, same in rows))


if __name__ == "__main__":
    sys.exit(main())
