"""`make versions`: runs every program on older and newer releases of the frameworks, and writes docs/versions.md.

Each release gets an environment of its own, built once, and the results of its run, in the folder `.versions`, which
git ignores; the page is made of all results there are.
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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import scenarios
from scenarios import elsewhere
from scenarios.catalogue import TITLES
from scenarios.elsewhere import HELD, NOT_EXPRESSIBLE, SHORT, WRONG, Result

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".versions"
PAGE = ROOT / "docs/versions.md"
RELEASES = {
    "jax": ("0.10.2", "0.10.0", "0.9.2", "0.8.3", "0.7.2", "0.6.2", "0.5.3", "0.4.38", "0.4.35"),
    "torch": ("2.15.0", "2.14.1", "2.13.0", "2.12.1", "2.11.0", "2.10.0", "2.9.1", "2.8.0", "2.7.1", "2.6.0", "2.5.1"),
    "torch_xla": ("2.9.0", "2.8.1", "2.7.0", "2.6.1"),
}
"""What is tried of each stack: the newest, about two a year, the oldest."""
_WITH = {"jax": ("optax",), "torch": ("numpy",), "torch_xla": ("numpy",)}
"""What the programs import beside the stack."""
_PYTHON = "3.11"
_HEAD = """\
# Works on what is installed

Every program of [tests/scenarios](../tests/scenarios) was run on each of these releases, and its report held against
what the program expects. *Right*: of the programs that provoke something and that the release can express, those whose
report says all of it: causes, arguments, values, findings. *Short*: it says less (`unknown`, a null), or nothing and
also that something was not observed. *Wrong*: it says something else, or is silent without saying so. *Quiet*: of the
programs that provoke nothing, those of which nothing was said.

This file is generated: `make versions` builds an environment for each release (once, in `.versions`; some take 7 GB)
and runs everything; `make versions ONLY="jax==0.9.2 torch==2.8.0"` runs some of it and keeps what is known of the rest.
"""


@dataclass(slots=True)
class Run:
    """All programs of a stack on one release, and when that was."""

    stack: str
    release: str
    python: str
    date: str
    commit: str
    results: list[Result] = field(default_factory=list)

    def having(self, verdict: str, *, quiet: bool = False) -> list[Result]:
        """The results with this verdict, of the programs that expect something, or of those that expect nothing."""
        return [row for row in self.results if row.verdict == verdict and row.expects_nothing == quiet]


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
    def name(self) -> str:
        return f"{self.stack}-{self.number}" + (f"-python{self.python}" if self.python != _PYTHON else "")

    @property
    def environment(self) -> Path:
        return FOLDER / self.name

    @property
    def results(self) -> Path:
        return FOLDER / f"{self.name}.json"

    def requirements(self) -> list[str]:
        """What pip is asked for."""
        wanted = [f"{self.stack}=={self.number}", *_WITH[self.stack]]
        if self.stack == "torch_xla":  # the torch that it was built for
            wanted.append(f"torch=={self.number.rpartition('.')[0]}.*")
        return wanted


def build(release: Release) -> str:
    """The interpreter of the release's environment, which is made where it is not there yet."""
    python = release.environment / "bin/python"
    built = release.environment / "built"
    if not built.exists():
        print(f"building {release.environment.relative_to(ROOT)}", file=sys.stderr)
        subprocess.run([f"python{release.python}", "-m", "venv", release.environment], check=True)
        env = {**os.environ, "PIP_CONSTRAINT": os.devnull}  # a machine's own cap on a framework is not meant here
        pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *release.requirements()], env=env, check=True)
        subprocess.run(["flock", "setup.cfg", *pip, "-e", "."], cwd=ROOT, env=env, check=True)
        built.touch()
    return str(python)


def run(release: Release) -> Run:
    """All of the stack's programs, run there; the results are kept."""
    python = build(release)
    found = Run(release.stack, release.number, release.python, f"{datetime.date.today()}", commit())
    for result in elsewhere.run_all(scenarios.programs(release.stack), python):
        found.results.append(result)
        if result.verdict != HELD:
            print(f"{result.verdict:20} {result.program:28} {result.why}", flush=True)
    release.results.write_text(json.dumps(asdict(found), indent=1))
    return found


def commit() -> str:
    """The commit of main that this is, or begins from: "1527cd4", "1527cd4 and 2 more"."""

    def git(*words: str) -> str:
        return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()

    base = git("merge-base", "HEAD", "main")
    more = int(git("rev-list", "--count", f"{base}..HEAD")) + bool(git("status", "--porcelain", "-uno"))
    return git("rev-parse", "--short=7", base) + (f" and {more} more" if more else "")


def kept() -> list[Run]:
    """The results that there are, the newest release first."""
    runs = [json.loads(path.read_text()) for path in FOLDER.glob("*.json")]
    read = [Run(**row | {"results": [Result(**result) for result in row["results"]]}) for row in runs]
    return sorted(read, key=lambda run: (scenarios.numbers(run.release), scenarios.numbers(run.python)), reverse=True)


def page(runs: Iterable[Run]) -> str:
    """The page that tells of these runs."""
    runs = list(runs)
    parts = [_HEAD]
    for stack, title in TITLES.items():
        mine = [run for run in runs if run.stack == stack]
        if mine:
            parts += [f"## {title}\n", *_table(mine), *(line for run in mine for line in _details(run, title))]
    return "\n".join(parts).rstrip() + "\n"


def _table(runs: list[Run]) -> Iterator[str]:
    yield "| release | Python | right | short | wrong | cannot be expressed | quiet | run | of |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |"
    for run in runs:
        held, short, wrong = (len(run.having(verdict)) for verdict in (HELD, SHORT, WRONG))
        wrong += len(run.having(WRONG, quiet=True))
        other = len(run.having(NOT_EXPRESSIBLE)) + len(run.having(NOT_EXPRESSIBLE, quiet=True))
        quiet = [row for row in run.results if row.expects_nothing and row.verdict != NOT_EXPRESSIBLE]
        silent = len(run.having(HELD, quiet=True))
        expressed = sum(not row.expects_nothing and row.verdict != NOT_EXPRESSIBLE for row in run.results)
        cells = (
            *(run.release, run.python, f"{held} of {expressed} ({held / max(expressed, 1):.0%})", short, wrong, other),
            *(f"{silent} of {len(quiet)}", run.date, run.commit),
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def _details(run: Run, title: str) -> Iterator[str]:
    """What was not right on this release, program by program, and what it says that was not observed."""
    lines = [
        f"- {verdict}: `{row.program}`: {row.why}"
        for verdict in (WRONG, SHORT, NOT_EXPRESSIBLE)
        for row in run.results
        if row.verdict == verdict
    ]
    missing = Counter(text for row in run.results for text in set(row.missing))
    lines += [f"- not observed: {text}" for text, count in sorted(missing.items()) if count > len(run.results) / 2]
    if lines:
        yield f"### {title} {run.release}, Python {run.python}\n"
        yield "\n".join(lines) + "\n"


def main() -> int:
    """Run what is asked for, and write the page. The exit code is 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.versions", description=__doc__)
    parser.add_argument("--remove", action="store_true", help="remove each environment after its run; results stay")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page of the results there are")
    parser.add_argument("releases", nargs="*", type=Release.parse, help="as jax==0.9.2, torch==2.13.0@3.13; or all")
    options = parser.parse_args()
    all_of_them = [Release(stack, number) for stack, numbers in RELEASES.items() for number in numbers]
    wrong = 0
    FOLDER.mkdir(exist_ok=True)
    for release in [] if options.page else options.releases or all_of_them:
        print(f"{release.stack} {release.number}, Python {release.python}", flush=True)
        found = run(release)
        wrong += sum(row.verdict == WRONG for row in found.results)
        if options.remove:
            shutil.rmtree(release.environment)
    PAGE.write_text(page(kept()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
