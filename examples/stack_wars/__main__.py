"""Trains the FFN and the GPT-2 in every stack that is installed, and says what each made of its first steps.

`python -m examples.stack_wars`, best in `.venv-xla`, which has all of them. `--gpt2-small` is the published size.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace
from statistics import mean
from textwrap import wrap
from typing import TypeVar

from examples.stack_wars.sizes import FFN, GPT, GPT2_SMALL

import coldstep
from coldstep.model import Interval, Trace

STACKS = {"jax": "jax", "inductor": "torch", "torch_xla": "torch_xla", "openxla": "torch_xla"}
"""A stack, and the package that it needs."""


Size = TypeVar("Size", FFN, GPT)


def main() -> None:
    options = _options()
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    stacks = [stack for stack in options.stacks if importlib.util.find_spec(STACKS[stack])]
    for stack in sorted(set(options.stacks) - set(stacks)):
        print(f"{stack}: not installed here; make venv-xla builds an environment that has it")
    gpt = GPT2_SMALL if options.gpt2_small else GPT()
    sizes = {"ffn": _chosen(FFN(), options), "gpt": _chosen(gpt, options)}
    with tempfile.TemporaryDirectory(prefix="stack-wars-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache  # an empty one: a first run, every time
        with coldstep.trace(options.output, ir=options.ir) as run:
            for model in options.models:
                for stack in stacks:
                    _train(model, stack, sizes[model], options.steps)
    trace = coldstep.load(run.path)
    for model in options.models:
        print(f"\n{sizes[model]}")
        for stack in stacks:
            for line in _row(trace, f"{model} {stack}"):
                print(line)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.stack_wars", description=__doc__)
    parser.add_argument("-o", "--output", default="stack_wars.pftrace", help="the one trace (%(default)s)")
    parser.add_argument("--models", nargs="+", choices=("ffn", "gpt"), default=["ffn", "gpt"])
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("--steps", type=int, default=8, metavar="N", help="steps of each, 2 or more (%(default)s)")
    parser.add_argument("--ir", action="store_true", help="keep the programs, for coldstep diff --ir")
    parser.add_argument("--gpt2-small", action="store_true", help=f"the published size: {GPT2_SMALL}")
    for field in fields(GPT):
        of = "of both models" if field.name in {each.name for each in fields(FFN)} else "of the GPT-2"
        parser.add_argument(f"--{field.name}", type=int, metavar="N", help=of)
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps: there is no second step below 2")
    return options


def _chosen(size: Size, options: argparse.Namespace) -> Size:
    """A size with what the command line says otherwise."""
    given = {field.name: getattr(options, field.name) for field in fields(size)}
    return replace(size, **{name: value for name, value in given.items() if value is not None})


def _train(model: str, stack: str, size: FFN | GPT, steps: int) -> None:
    """A loop of `steps` steps; imports in here, so that the trace shows what importing a stack costs."""
    if stack == "jax":
        from examples.stack_wars import train_jax as stacked
    else:
        from examples.stack_wars import train_torch as stacked
    step, batch = stacked.prepare(stack, size)
    for _ in range(steps):
        with coldstep.step(f"{model} {stack}"):
            coldstep.wait(step(batch))


def _row(trace: Trace, name: str) -> Iterator[str]:
    """First, second and average steady step of one kind, with the reason under each."""
    steps = [row for row in trace.intervals if row.name == name and row.kind == "step"]
    steady = [row.wall_ns for row in steps if row.label == "steady"]
    settled = next(row.settled_at_step for row in trace.settling if row.name == name)
    told = [
        ("First", _ms(steps[0].wall_ns), _spent(steps[0])),
        ("Second", _ms(steps[1].wall_ns), _why(trace, steps[1])),
        ("Avg-steady", _ms(round(mean(steady))) if steady else "-", f"settled at step {settled}, {len(steady)} steps"),
    ]
    yield f"{name.partition(' ')[2]:10}" + "".join(f"{title} {number:>12}   " for title, number, _ in told).rstrip()
    for title, _, reason in told:
        yield from wrap(f"{title}: {reason}", 110, initial_indent=" " * 12, subsequent_indent=" " * 14)


def _spent(step: Interval) -> str:
    """The three largest phases of a step."""
    phases = sorted(step.phases.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{phase} {ns / step.wall_ns:.0%}" for phase, ns in phases)


def _why(trace: Trace, step: Interval) -> str:
    """Why a later step compiled: the causes found, else that it did not."""
    causes = [row for each in trace.settling if each.name == step.name for row in each.causes if row.step == step.step]
    told = ["; ".join([row.text, *(text for text in row.evidence if text.startswith("new inputs"))]) for row in causes]
    return "; ".join(told) or "compiled nothing"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.1f} ms"


if __name__ == "__main__":
    main()
