"""What holds without a private name of a framework's, each taken away alone: docs/evidence/private_names.md.

`python tests/private_names.py --output PAGE jax=PYTHON …`: the Python of an environment that has the framework.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenarios.versions import commit

HERE = Path(__file__).parent
STACKS = {"jax": "JAX", "torch": "PyTorch", "torch_xla": "torch_xla", "tensorflow": "TensorFlow"}
ALL_NAMES = "all names"
_TOLD = ("recompiles", "breaks", "compiles", "settling")
_HEAD = """\
# Without its private names

What coldstep reads of a framework's private modules, taken away one by one, as if a release had renamed it: each
function, class and module, and each name that is read there. It is *held* where the program prints the same, the trace
says what is not observed, and no cause is another. `make shows` writes this file.

| stack | version | names | held | run | of |
| --- | --- | ---: | ---: | --- | --- |
"""


@dataclass(slots=True)
class KnockedOut:
    """A stack without each of its names."""

    stack: str
    version: str
    names: list[str]
    """What was taken away."""
    wrong: dict[str, list[str]]
    """What must not be, by the name, or by `ALL_NAMES` for what was so with all of them; empty where all is held."""


def knock_out(python: str, stack: str, folder: Path, few: bool) -> KnockedOut:
    """Run a stack's programs without each name; with `few`, each path only. RuntimeError where they do not run."""
    settings = {
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",  # half of the LLVM
    }
    done = subprocess.run(
        [python, str(HERE / "helpers/knocked_out.py"), stack, str(folder), *(["few"] if few else [])],
        env={"PJRT_DEVICE": "CPU", **os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=550 if few else 3600,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return judged(stack, done.stdout)


def judged(stack: str, output: str) -> KnockedOut:
    """What `knocked_out` printed, held against what was so with all names."""
    about, *rows = map(json.loads, output.splitlines())
    wrong = {ALL_NAMES: [f"is said to be in this version: {form}" for form in about["untrue"]]}
    ran = [row for row in rows if "error" not in row]
    bare, whole = ({row["program"]: row for row in ran if row["label"] == label} for label in ("", ALL_NAMES))
    for name, row in whole.items():
        never = {*row["missing"]}.difference(about["unseen"])  # seen, under any name
        for each in ran:
            if each["program"] == name:
                each["missing"] = [words for words in each.get("missing", ()) if words not in never]
        if (row["missing"], row["failed"], row["output"]) != ([], [], bare[name]["output"]):
            wrong[ALL_NAMES].append(f"{name}: {row['missing']} {row['failed']} {row['output']}")
    for row in rows:
        found = [row["error"].strip()] if "error" in row else []
        if row["label"] not in ("", ALL_NAMES):
            found += [] if found else _wrong(row, whole[row["program"]])
        wrong.setdefault(row["label"] or ALL_NAMES, []).extend(found)
    names = [row["label"] for row in rows if row["label"] not in ("", ALL_NAMES)]
    return KnockedOut(stack, about["version"], names, {name: found for name, found in wrong.items() if found})


def _wrong(row: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """What must not be, without a name: another output, a cause that is not so, or silence about what is not seen."""
    found = [f"{name} failed: {row['notes'][-1:]}" for name in row["failed"]]
    if row["output"] != whole["output"]:
        found.append(f"prints {row['output']}")
    found += [f"does not say {words!r}" for words in row["expected"] if words not in row["missing"]]
    found += [f"says {said}" for said in row["recompiles"] if said[1] != "unknown" and said not in whole["recompiles"]]
    if not row["missing"] and (other := [key for key in _TOLD if row[key] != whole[key]]):
        found.append(f"tells other {other}, without a word: {[row[key] for key in other]}")
    return found


def page(stacks: Iterable[KnockedOut], date: str, commit: str) -> str:
    """The page, in Markdown."""
    stacks = list(stacks)
    lines = []
    for one in stacks:
        held = sum(name not in one.wrong for name in one.names)
        words = (STACKS[one.stack], one.version, str(len(one.names)), f"{held} of {len(one.names)}", date, commit)
        lines.append(f"| {' | '.join(words)} |")
    for one in stacks:
        if one.wrong:
            lines += ["", f"## {STACKS[one.stack]}: not held", ""]
            lines += [f"- `{name}`: {_in_a_line('; '.join(found))}" for name, found in one.wrong.items()]
    return _HEAD + "\n".join(lines) + "\n"


def _in_a_line(text: str) -> str:
    last = text.splitlines()[-1]  # of a traceback: what was raised
    return last if len(last) <= 300 else f"{last[:300]}…"


def main() -> int:
    """Take away all names of each stack, and write the page; 1 where something is not held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stacks", nargs="+", metavar="STACK=PYTHON")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    found = []
    for stack, _, python in (words.partition("=") for words in given.stacks):
        with tempfile.TemporaryDirectory(prefix="coldstep-names-") as folder:
            found.append(knock_out(python, stack, Path(folder), few=False))
        print(f"{STACKS[stack]}: {len(found[-1].names)} names, not held: {found[-1].wrong}", flush=True)
    given.output.write_text(page(found, f"{datetime.date.today()}", commit()))
    return int(any(one.wrong for one in found))


if __name__ == "__main__":
    sys.exit(main())
