"""What one model's step would hold in one stack, in a process of its own: `python -m benchmarks.stack_wars.fitting
MODEL STACK SIZE FILE` writes it, and nothing of the model is allocated."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import coldstep
from coldstep.ahead.fit import Fit, Held, Remedy

STACKS = {"jax": "jax", "eager": "torch", "torch_xla": "torch"}
"""The stacks that can be asked, and which of the train_* modules has each."""


@dataclass(slots=True)
class Foretold:
    """What `coldstep.would_fit` said of one pair."""

    fit: Fit | None
    """None where it is not known."""
    why: str = ""
    """Why it is not."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stack_wars.fitting", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("stack", choices=STACKS)
    parser.add_argument("size")
    parser.add_argument("file", type=Path)
    parser.add_argument("--memory", metavar="32GiB")
    options = parser.parse_args()
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    stacked = import_module(f"benchmarks.stack_wars.train_{STACKS[options.stack]}")
    fn, args = stacked.abstract(options.stack, options.model, options.size)
    write(Foretold(coldstep.would_fit(fn, *args, memory=options.memory)), options.file)


def write(found: Foretold, path: Path) -> None:
    """The row, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(found), indent=1) + "\n")


def read(path: Path) -> Foretold:
    """What was written there."""
    said = json.loads(path.read_text())
    fit = said["fit"]
    if fit is None:
        return Foretold(None, said["why"])
    held = [Held(**row) for row in fit.pop("held")]
    remedies = [Remedy(**row) for row in fit.pop("remedies")]
    return Foretold(Fit(**fit, held=held, remedies=remedies))


if __name__ == "__main__":
    main()
