"""`make newest`: runs programs on the newest frameworks that pip resolves here, and writes docs/evidence/newest.md.

Each stack gets an environment of its own in `.versions`, of the newest Python that runs, which each run brings up to
date. What was right is written to requirements/newest.txt; with `--held` that file is what is installed and run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from scenarios import versions
from scenarios.versions import FOLDER, ROOT, Release, Run

PAGE = ROOT / "docs/evidence/newest.md"
HELD = ROOT / "requirements/newest.txt"
PACKAGES = {
    "jax": ("jax", "flax", "equinox", "optax"),
    "torch": ("torch", "transformers", "lightning", "numpy"),
    "tensorflow": ("tensorflow-cpu", "keras"),
}
"""What pip is asked for, in the environment of each stack; the first is the one that its programs are of."""
_SOME = {"jax": None, "torch": 30, "tensorflow": None}
"""How many programs of each stack are run, with their marks and without; None is all."""
_HEAD = """\
# The newest that pip gives

`make newest` asks pip for the newest releases on the newest Python that runs, each stack in an environment of its own,
and runs there `coldstep doctor`, the programs of [tests/scenarios](../../tests/scenarios) (all of JAX's and
TensorFlow's, 30 of PyTorch's), and the same programs without marks under `coldstep run`. *Right* is what
[versions.md](versions.md) calls so.
It exits 1 where a program is wrong, less than 95 % are right, doctor fails, or a collector is partial: it lacks a hook
on these releases. What no release lets coldstep observe is shown, and is no reason. What was right stands in
[requirements/newest.txt](../../requirements/newest.txt), of which CI runs 30 programs of JAX's. A stack without a row
was not run yet. All of it ran on a CPU: no figure of a GPU was measured.

| stack | Python | packages | pip's configuration holds back | not observed | right, marked | right, unmarked | run |
| --- | --- | --- | --- | --- | ---: | ---: | --- |
"""


@dataclass(slots=True, frozen=True)
class Row:
    """What a stack's newest packages gave."""

    stack: str
    python: str
    packages: tuple[str, ...]
    """As pip names them: jax==0.12.0.1."""
    held_back: tuple[str, ...]
    """The newer releases that pip's configuration refuses."""
    unseen: tuple[str, ...]
    """What doctor says fails, and the collectors that it calls partial."""
    runs: tuple[Run, ...]

    @property
    def holds(self) -> bool:
        """Whether all is as good as is promised of the newest."""
        return not self.lacking and all(run.right_enough(0.95) for run in self.runs)

    @property
    def lacking(self) -> tuple[str, ...]:
        """What doctor says, and the collectors that lack a hook in a program."""
        partial = (f"{name} is partial" for run in self.runs for name in run.partial)
        return tuple(dict.fromkeys((*self.unseen, *partial)))

    @property
    def all_unseen(self) -> tuple[str, ...]:
        """What is lacking, and what most traces say that was not observed."""
        return *self.lacking, *dict.fromkeys(text for run in self.runs for text in run.missing)

    def line(self) -> str:
        """Its line of the page's table."""
        shown = [each for each in self.packages if name_of(each) in PACKAGES[self.stack]]
        cells = (self.stack, self.python, ", ".join(shown), ", ".join(self.held_back) or "nothing")
        runs = (run.summary for run in self.runs)
        return f"| {' | '.join((*cells, '; '.join(self.all_unseen) or 'nothing', *runs, f'{datetime.date.today()}'))} |"


def build(stack: str, python: str, requirements: Sequence[str], name: str) -> str:
    """The interpreter of an environment that holds these."""
    environment = FOLDER / name
    interpreter = str(environment / "bin/python")
    subprocess.run([python, "-m", "venv", environment], check=True)
    pip = [interpreter, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "--upgrade-strategy", "eager", *requirements], check=True)
    subprocess.run(["flock", "setup.cfg", *pip, "-e", "."], cwd=ROOT, check=True)
    return interpreter


def installed(interpreter: str) -> tuple[str, ...]:
    """All packages of an environment but coldstep, with their releases."""
    command = [interpreter, "-m", "pip", "freeze", "--exclude-editable"]
    return tuple(subprocess.check_output(command, text=True).splitlines())


def name_of(package: str) -> str:
    """As it is asked for: pip itself writes tensorflow_cpu==2.21.0 of tensorflow-cpu."""
    return package.partition("==")[0].replace("_", "-")


def held_back(interpreter: str, packages: Sequence[str]) -> tuple[str, ...]:
    """The releases that pip would install of these, were it not for the constraints in its configuration."""
    free = offered(interpreter, packages, {"PIP_CONSTRAINT": os.devnull})
    return tuple(sorted(free - offered(interpreter, packages, {})))


def offered(interpreter: str, packages: Sequence[str], env: dict[str, str]) -> set[str]:
    """The newest releases that pip finds, whatever these need."""
    command = [interpreter, "-m", "pip", "install", "-qq", "--dry-run", "--ignore-installed", "--no-deps"]
    found = subprocess.check_output([*command, "--report", "-", *packages], env={**os.environ, **env}, text=True)
    rows = (row["metadata"] for row in json.loads(found)["install"])
    return {f"{row['name']}=={row['version']}" for row in rows}


def unseen(interpreter: str) -> tuple[str, ...]:
    """What `coldstep doctor` says fails there, and the collectors that are partial or failed."""
    done = subprocess.run([interpreter, "-m", "coldstep", "doctor", "--json"], capture_output=True, text=True)
    found = json.loads(done.stdout)
    failed = [f"{test['name']}: {test['text']}" for test in found["tests"] if not test["ok"]]
    states = [
        f"{row['name']} is {row['state']}" for row in found["collectors"] if row["state"] in ("partial", "failed")
    ]
    return *failed, *states


def held(stack: str) -> tuple[str, list[str]]:
    """The Python and the packages that requirements/newest.txt has of a stack."""
    match = re.search(rf"^# {stack}, Python (3\.\d+)\b.*\n((?:[^#\n].*\n)+)", HELD.read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit(f"requirements/newest.txt has nothing of {stack}; run: make newest")
    return match[1], match[2].split()


def hold(row: Row) -> None:
    """Put the packages of a stack in the place of those that requirements/newest.txt had."""
    old = HELD.read_text().rstrip().split("\n\n") if HELD.exists() else []
    parts = {part[2 : part.index(",")]: part for part in old}
    parts[row.stack] = "\n".join([f"# {row.stack}, Python {row.python}, {datetime.date.today()}", *row.packages])
    HELD.write_text("\n\n".join(parts.values()) + "\n")


def publish(row: Row) -> None:
    """Put the row of a stack in the place of the one that the page had."""
    old = PAGE.read_text().splitlines() if PAGE.exists() else []
    lines = {line.split(" | ")[0]: line for line in old if line.startswith(tuple(f"| {name} |" for name in PACKAGES))}
    lines[f"| {row.stack}"] = row.line()
    PAGE.write_text(_HEAD + "\n".join(lines.values()) + "\n")


def run(stack: str, interpreter: str, python: str, some: int | None, *, only_marked: bool = False) -> Row:
    """What the stack gives in an environment."""
    packages = installed(interpreter)
    number = next(each.partition("==")[2] for each in packages if name_of(each) == PACKAGES[stack][0])
    release = Release(stack, number, python)
    kinds = (True,) if only_marked else (True, False)
    runs = tuple(versions.run(release, interpreter, some, marked=marked) for marked in kinds)
    caps = () if only_marked else held_back(interpreter, PACKAGES[stack])
    return Row(stack, python, packages, caps, unseen(interpreter), runs)


def _stack(name: str) -> str:
    """By `choices` Python 3.12.1 would look a list up among them, where no stack is named."""
    if name not in PACKAGES:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PACKAGES)}")
    return name


def main() -> int:
    """Run the stacks that are asked for. The exit code is 1 where less is right than is promised."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.newest", description=__doc__)
    parser.add_argument("--held", type=int, metavar="N", help="N programs on what requirements/newest.txt has")
    parser.add_argument("stacks", nargs="*", type=_stack, default=list(PACKAGES), help=", ".join(PACKAGES))
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    right = True
    for stack in options.stacks:
        version, packages = held(stack) if options.held else ("", list(PACKAGES[stack]))
        python = versions.interpreter(*[version] if version else ["3.13", "3.12", "3.11"])
        if not python:
            print(f"no Python {version} runs here: requirements/newest.txt was not tried on {stack}")
            continue
        version = subprocess.check_output(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True
        )
        interpreter = build(stack, python, packages, f"{'held' if options.held else 'newest'}-{stack}")
        row = run(stack, interpreter, version.strip(), options.held or _SOME[stack], only_marked=bool(options.held))
        print(row.line(), flush=True)
        right &= row.holds
        if not options.held:
            publish(row)
            if row.holds:
                hold(row)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
