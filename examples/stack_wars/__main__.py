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

from examples.stack_wars.sizes import FFN, GPT, GPT2_SMALL

import coldstep
from coldstep.model import Interval, Trace

STACKS = {"jax": "jax", "inductor": "torch", "torch_xla": "torch_xla", "openxla": "torch_xla"}
"""A stack, and the package that it needs."""


def main() -> None:
    options = _options()
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    stacks = [stack for stack in options.stacks if importlib.util.find_spec(STACKS[stack])]
    for stack in sorted(set(options.stacks) - set(stacks)):
        print(f"{stack}: not installed here; make venv-xla builds an environment that has it")
    gpt = GPT2_SMALL if options.gpt2_small else GPT()
    chosen = {field.name: value for field in fields(GPT) if (value := getattr(options, field.name)) is not None}
    sizes = {"ffn": FFN(), "gpt": replace(gpt, **chosen)}
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
    parser.add_argument("--steps", type=int, default=8, help="steps of each (%(default)s)")
    parser.add_argument("--ir", action="store_true", help="keep the programs, for coldstep diff --ir")
    parser.add_argument("--gpt2-small", action="store_true", help=f"the published size: {GPT2_SMALL}")
    for field in fields(GPT):
        parser.add_argument(f"--{field.name}", type=int, help=f"of the GPT-2 ({field.default})")
    return parser.parse_args()


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
    numbers = [_ms(steps[0].wall_ns), _ms(steps[1].wall_ns) if len(steps) > 1 else "-", "-"]
    reasons = [_spent(steps[0]), _why(trace, steps[1]) if len(steps) > 1 else "", "no steady step"]
    if steady:
        numbers[2] = _ms(round(mean(steady)))
        settled = next((row.settled_at_step for row in trace.settling if row.name == name), None)
        reasons[2] = f"of {len(steady)} steps; settled at step {settled}"
    yield f"{name.partition(' ')[2]:10}" + "".join(
        f"{title} {number:>12}   " for title, number in zip(("First", "Second", "Avg-steady"), numbers, strict=True)
    )
    for title, reason in zip(("First", "Second", "Avg-steady"), reasons, strict=True):
        yield f"{'':10}  {title}: {reason}"


def _spent(step: Interval) -> str:
    """The three largest phases of a step."""
    phases = sorted(step.phases.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{phase} {ns / step.wall_ns:.0%}" for phase, ns in phases)


def _why(trace: Trace, step: Interval) -> str:
    """Why a later step compiled: the causes found, else that it did not."""
    causes = [
        cause for row in trace.settling if row.name == step.name for cause in row.causes if cause.step == step.step
    ]
    if causes:
        return "; ".join(dict.fromkeys(f"{cause.cause}: {cause.text}" for cause in causes))
    return f"compiled {len(step.compiles)} programs, {_spent(step)}" if step.compiles else "compiled nothing"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.1f} ms"


if __name__ == "__main__":
    main()
