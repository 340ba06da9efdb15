"""`make versions`: every program on older and newer releases of the frameworks; writes docs/evidence/versions.md.

Each release gets an environment of its own, built once, in the folder `.versions`, which git ignores. What its run gave
is kept beside the page, in docs/evidence/versions.json: the page is made of all that is there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import scenarios
from coldstep_viewers.catalogue.pages import TITLES
from scenarios import elsewhere
from scenarios.elsewhere import HELD, NOT_EXPRESSIBLE, SHORT, WRONG, Result

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".versions"
PAGE = ROOT / "docs/evidence/versions.md"
KEPT = ROOT / "docs/evidence/versions.json"
RELEASES = {
    "jax": ("0.12.0.1", "0.11.2", "0.10.2", "0.10.0", "0.9.2", "0.8.3", "0.7.2", "0.6.2", "0.5.3", "0.4.38", "0.4.35"),
    "torch": ("2.15.0", "2.14.1", "2.13.0", "2.12.1", "2.11.0", "2.10.0", "2.9.1", "2.8.0", "2.7.1", "2.6.0", "2.5.1"),
    "torch_xla": ("2.9.0", "2.8.1", "2.7.0", "2.6.1"),
    "tensorflow": ("2.21.0",),
}
"""What is tried of each stack: the newest, about two a year, the oldest."""
PROMISED = {
    "jax": (("0.9", 0.95), ("0.6", 0.90), ("0", 0.70)),
    "torch": (("2.12", 0.95), ("2.8", 0.90), ("0", 0.70)),
    "torch_xla": (("2.8", 0.90), ("0", 0.70)),
    "tensorflow": (("0", 0.95),),
}
"""From which release on which share must be right. Nothing may be wrong anywhere."""
_WITH = {"jax": ("optax",), "torch": ("numpy",), "torch_xla": ("numpy",), "tensorflow": ()}
"""What the programs import beside the stack."""
_PACKAGE = {"tensorflow": "tensorflow-cpu"}
"""What pip calls a stack, where it is not the stack's name."""
_PYTHON = "3.11"
_HEAD = """\
# Works on what is installed

Every program of [tests/scenarios](../../tests/scenarios) was run on each of these releases, and its report held against
what the program expects. *Right*: of the programs that provoke something and that the release can express, those whose
report says all of it: causes, arguments, values, findings. *Short*: it says less (`unknown`, a null), or nothing and
also that something was not observed. *Wrong*: it says something else, or is silent without saying so. *Quiet*: of the
programs that provoke nothing, those of which nothing was said. The second half of a stack, where there is one yet, is
of the same programs without their marks, under `coldstep run`: their recompiles alone are held against them. Below a
table stands what was not right, and behind it the releases, with Python 3.11 where no other is named.

This file is generated: `make versions` builds an environment for each release (once, in `.versions`; some take 7 GB)
and runs everything; `make versions ONLY="jax==0.9.2 torch==2.13.0@3.13"` runs some of it and keeps what
[versions.json](versions.json) has of the rest. It fails where anything is wrong, or less is right than is promised:
95 % from JAX 0.9 and PyTorch 2.12 on and of TensorFlow, 90 % from JAX 0.6, PyTorch 2.8 and torch_xla 2.8 on, 70 %
before. CI runs 30 programs on the oldest JAX (`make oldest`).
"""


@dataclass(slots=True)
class Run:
    """What the programs of a stack gave on one release, and when that was."""

    stack: str
    release: str
    python: str
    date: str
    commit: str
    right: int = 0
    """Of the programs that expect something."""
    quiet: int = 0
    """Those that expect nothing, and of which nothing was said."""
    others: list[Result] = field(default_factory=list)
    """The programs of which something else came."""
    missing: list[str] = field(default_factory=list)
    """What the traces of most programs say was not observed."""
    partial: list[str] = field(default_factory=list)
    """The collectors that lacked a hook in any of them; not kept, for `missing` tells of most."""
    marked: bool = True
    """Whether the programs marked their steps."""

    @classmethod
    def of(cls, release: Release, results: Sequence[Result], *, marked: bool = True) -> Run:
        """What these results, of today, come to."""
        missing = Counter(text for row in results for text in set(row.missing))
        held = Counter(row.expects_nothing for row in results if row.verdict == HELD)
        return cls(
            *(release.stack, release.number, release.python, f"{datetime.date.today()}", commit()),
            *(held[False], held[True]),
            [replace(row, versions={}, missing=[], partial=[]) for row in results if row.verdict != HELD],
            sorted(text for text, count in missing.items() if count > len(results) / 2),
            sorted({name for row in results for name in row.partial}),
            marked,
        )

    @classmethod
    def read(cls, row: dict[str, object]) -> Run:
        """From a row of the kept file."""
        others: list[dict[str, object]] = row["others"]  # type: ignore[assignment]
        return cls(**row | {"others": [Result(**each) for each in others]})  # type: ignore[arg-type]

    def written(self) -> dict[str, object]:
        """As a row of the kept file; what a result leaves empty is not in it."""
        others = [{key: value for key, value in asdict(row).items() if value or value is False} for row in self.others]
        return {key: value for key, value in asdict(self).items() if key != "partial"} | {"others": others}

    def having(self, verdict: str, *, quiet: bool = False) -> int:
        """How many have this verdict, of the programs that expect something, or of those that expect nothing."""
        return sum(row.verdict == verdict and row.expects_nothing == quiet for row in self.others)

    @property
    def expressed(self) -> int:
        """How many programs that expect something the release can express."""
        return self.right + self.having(SHORT) + self.having(WRONG)

    @property
    def summary(self) -> str:
        """How much was right, in words."""
        wrong = f", {self.wrong} wrong" if self.wrong else ""
        return f"{self.right} of {self.expressed} right{wrong}"

    @property
    def wrong(self) -> int:
        """How many reports say something that is not so."""
        return self.having(WRONG) + self.having(WRONG, quiet=True)

    @property
    def holds(self) -> bool:
        """Whether it is as good as is promised of the release."""
        release = scenarios.numbers(self.release)
        share = next(share for first, share in PROMISED[self.stack] if release >= scenarios.numbers(first))
        return self.right_enough(share)

    def right_enough(self, share: float) -> bool:
        """Whether nothing is wrong, and so much of what the release can express is right."""
        return not self.wrong and self.right >= share * self.expressed


@dataclass(slots=True, frozen=True, order=True)
class Release:
    """A release of a stack under one version of Python: `jax==0.9.2`, `jax==0.10.2@3.13`."""

    stack: str
    number: str
    python: str = _PYTHON

    @classmethod
    def parse(cls, text: str) -> Release:
        """Raises ValueError where the text names none."""
        match = re.fullmatch(r"(\w+)==([\d.]+)(?:@(3\.\d+))?", text)
        if match is None or match[1] not in RELEASES:
            raise ValueError(f"not a release as jax==0.9.2, of {', '.join(RELEASES)}: {text}")
        return cls(match[1], match[2], match[3] or _PYTHON)

    @property
    def environment(self) -> Path:
        return FOLDER / (f"{self.stack}-{self.number}" + (f"-python{self.python}" if self.python != _PYTHON else ""))

    def requirements(self) -> list[str]:
        """What pip is asked for."""
        wanted = [f"{_PACKAGE.get(self.stack, self.stack)}=={self.number}", *_WITH[self.stack]]
        if self.stack == "torch_xla":  # the torch that it was built for
            wanted.append(f"torch=={self.number.rpartition('.')[0]}.*")
        return wanted


def interpreter(*wanted: str) -> str:
    """The path of the first of these Pythons that runs, a version manager's included; nothing where none does."""
    found = subprocess.run([ROOT / "requirements/find_python", *wanted], capture_output=True, text=True)
    return found.stdout.strip()


def build(release: Release) -> str:
    """The interpreter of the release's environment, which is made where it is not there yet."""
    python = release.environment / "bin/python"
    built = release.environment / "built"
    env = {**os.environ, "PIP_CONSTRAINT": os.devnull}  # a machine's own cap on a framework is not meant here
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    if not built.exists():
        print(f"building {release.environment.relative_to(ROOT)}", file=sys.stderr)
        found = interpreter(release.python)
        if not found:
            raise SystemExit(f"no Python {release.python} runs here, which {release.environment.name} needs")
        subprocess.run([found, "-m", "venv", release.environment], check=True)
        subprocess.run([*pip, *release.requirements()], env=env, check=True)
    changed = max((ROOT / name).stat().st_mtime for name in ("setup.cfg", "entry_points.txt"))  # packages, and parts
    if not built.exists() or built.stat().st_mtime < changed:
        subprocess.run(["flock", "setup.cfg", *pip, "-e", "."], cwd=ROOT, env=env, check=True)
        built.touch()
    return str(python)


def run(release: Release, python: str, some: int | None = None, *, marked: bool = True) -> Run:
    """The stack's programs, all or `some` of them, run there with their marks or without."""
    results = []
    for result in elsewhere.run_all(spread(scenarios.programs(release.stack), some), python, marked=marked):
        results.append(result)
        if result.verdict != HELD:
            print(f"{result.verdict:20} {result.program:28} {result.why}", flush=True)
    return Run.of(release, results, marked=marked)


def spread(programs: list[Path], some: int | None) -> list[Path]:
    """So many of them, one here and one there: those of one mechanism stand beside each other."""
    if some is None or some >= len(programs):
        return programs
    return [programs[n * len(programs) // some] for n in range(some)]


def commit() -> str:
    """The commit of main that this is, or begins from: "1527cd4", "1527cd4 and 2 more"."""

    def git(*words: str) -> str:
        return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()

    base = git("merge-base", "HEAD", "main")
    more = int(git("rev-list", "--count", f"{base}..HEAD")) + bool(git("status", "--porcelain", "-uno"))
    return git("rev-parse", "--short=7", base) + (f" and {more} more" if more else "")


def kept() -> list[Run]:
    """What is known of all releases, the newest first."""
    return [Run.read(row) for row in json.loads(KEPT.read_text())]


def keep(run: Run) -> None:
    """Put it in the place of what was known of its release."""
    me = (run.stack, run.release, run.python, run.marked)
    runs = [run, *(each for each in kept() if (each.stack, each.release, each.python, each.marked) != me)]
    stacks = list(RELEASES)
    runs.sort(key=lambda each: (scenarios.numbers(each.release), scenarios.numbers(each.python)), reverse=True)
    runs.sort(key=lambda each: stacks.index(each.stack))
    KEPT.write_text(json.dumps([each.written() for each in runs], indent=1) + "\n")


def page(runs: Iterable[Run]) -> str:
    """The page that tells of these runs."""
    runs = list(runs)
    parts = [_HEAD]
    for stack, title in TITLES.items():
        for marked, heading in ((True, title), (False, f"{title}, programs without marks")):
            mine = [run for run in runs if run.stack == stack and run.marked == marked]
            if mine:
                parts += [f"## {heading}\n", *_table(mine), *_details(mine)]
    return "\n".join(parts).rstrip() + "\n"


def _table(runs: list[Run]) -> Iterator[str]:
    yield "| release | Python | right | short | wrong | cannot be expressed | quiet | run | of |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |"
    for run in runs:
        other = run.having(NOT_EXPRESSIBLE) + run.having(NOT_EXPRESSIBLE, quiet=True)
        silent = run.quiet + run.having(SHORT, quiet=True) + run.having(WRONG, quiet=True)
        cells = (
            *(run.release, run.python, f"{run.right} of {run.expressed} ({run.right / max(run.expressed, 1):.0%})"),
            *(run.having(SHORT), run.wrong, other, f"{run.quiet} of {silent}", run.date, run.commit),
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def _details(runs: Iterable[Run]) -> Iterator[str]:
    """What was not right, the programs of one reason together, and what was not observed; and on which releases."""
    releases: dict[tuple[str, str, str], list[str]] = {}
    for verdict in (WRONG, SHORT, NOT_EXPRESSIBLE, "not observed"):
        for run in runs:
            name = run.release if run.python == _PYTHON else f"{run.release} with Python {run.python}"
            of = [(row.why, f"`{row.program}`") for row in run.others if row.verdict == verdict]
            for why, program in [(text, "") for text in run.missing] if verdict == "not observed" else of:
                releases.setdefault((verdict, why, program), []).append(name)
    programs: dict[tuple[str, str, str], list[str]] = {}
    for (verdict, why, program), names in releases.items():
        programs.setdefault((verdict, why if program else "", ", ".join(names)), []).append(program or why)
    if programs:
        rows = (
            (verdict, (", " if why else "; ").join(of), why, names) for (verdict, why, names), of in programs.items()
        )
        yield "\n".join(f"- {': '.join(filter(None, row[:3]))} ({row[3]})" for row in rows) + "\n"


def main() -> int:
    """Run what is asked for, and write the page. The exit code is 1 where less is right than is promised."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.versions", description=__doc__)
    parser.add_argument("--remove", action="store_true", help="remove each environment after its run")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page of what is kept")
    parser.add_argument("--some", type=int, metavar="N", help="so many programs of each stack; nothing is written")
    parser.add_argument("releases", nargs="*", type=Release.parse, help="as jax==0.9.2, torch==2.13.0@3.13; or all")
    options = parser.parse_args()
    all_of_them = [Release(stack, number) for stack, numbers in RELEASES.items() for number in numbers]
    hold = True
    FOLDER.mkdir(exist_ok=True)
    for release in [] if options.page else options.releases or all_of_them:
        print(f"{release.stack} {release.number}, Python {release.python}", flush=True)
        python = build(release)
        for marked in (True,) if options.some else (True, False):
            found = run(release, python, options.some, marked=marked)
            print(f"{found.summary}", flush=True)
            hold &= found.holds
            if options.some is None:
                keep(found)
        if options.remove:
            shutil.rmtree(release.environment)
    if options.some is None:
        PAGE.write_text(page(kept()))
    return 0 if hold else 1


if __name__ == "__main__":
    sys.exit(main())
