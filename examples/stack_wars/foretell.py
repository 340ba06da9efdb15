"""What each model would hold in memory, said before anything is allocated.

`python -m examples.stack_wars.foretell [MODEL …]` asks each in a process of its own, which writes its row beside the
traces of `python -m examples.stack_wars`; what is there is not asked again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from examples.stack_wars.models import MODELS
from examples.stack_wars.sizes import SIZES

import coldstep

STACKS = {"jax": "jax", "eager": "torch"}
"""The stacks that can be asked, and their modules."""
LIMIT_S = 360
ROOT = Path(__file__).parents[2]


def main() -> None:
    options = _options()
    for model in options.model or list(MODELS):
        for stack in options.stack:
            path = Path(options.output, options.size, model, f"{stack}.fit.json")
            if len(options.model) == len(options.stack) == 1:
                write(path, foretell(model, stack, options.size, options.memory))
            elif not path.exists():
                _by_itself(model, stack, options, path)
            print(f"{model} in {stack}: {said(path)}", flush=True)


def foretell(model: str, stack: str, size: str, memory: str | None) -> dict[str, Any]:
    """What a step would hold."""
    stacked = import_module(f"examples.stack_wars.train_{STACKS[stack]}")
    fn, args = stacked.abstract(stack, model, size)
    found = coldstep.would_fit(fn, *args, memory=memory)
    return {"peak_bytes": found.peak_bytes, "fits": found.fits, "text": str(found), "why": ""}


def write(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row, indent=1) + "\n")


def said(path: Path) -> str:
    row = json.loads(path.read_text())
    return str(row["text"] or row["why"])


def _by_itself(model: str, stack: str, options: argparse.Namespace, path: Path) -> None:
    words = [model, "--stack", stack, "--size", options.size, "-o", options.output]
    words += ["--memory", options.memory] if options.memory else []
    command = [sys.executable, "-m", "examples.stack_wars.foretell", *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        write(path, {"peak_bytes": None, "fits": None, "text": "", "why": f"not known after {LIMIT_S} s"})
        return
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["ended"])[-1]
        write(path, {"peak_bytes": None, "fits": None, "text": "", "why": why})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.stack_wars.foretell", description=__doc__)
    parser.add_argument("model", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (all)")
    parser.add_argument("--stack", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("--size", choices=SIZES, default="published", help="(%(default)s)")
    parser.add_argument("--memory", metavar="32GiB", help="what there is (what is available)")
    parser.add_argument("-o", "--output", default="stack-wars", help="the folder of rows (%(default)s)")
    options = parser.parse_args()
    if unknown := [name for name in options.model if name not in MODELS]:
        parser.error(f"{unknown[0]} is none of {', '.join(MODELS)}")
    return options


if __name__ == "__main__":
    main()
