"""Loops that compile in their second step, each beside itself with one line changed: what coldstep says of both.

`python examples/settling.py`; in `.venv-xla` the cases of torch_xla are among them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass

import coldstep
from coldstep.model import Settling

Loop = Callable[[str, bool], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A loop, why its second step compiles, and the change that helps."""

    stack: str
    cause: str
    change: str
    train: Loop


CASES: list[Case] = []


def case(stack: str, cause: str, change: str) -> Callable[[Loop], Loop]:
    """Add a loop: of steps with the name it is given, and with the change where it is told so."""

    def add(train: Loop) -> Loop:
        CASES.append(Case(stack, cause, change, train))
        return train

    return add


@case("jax", "committed", "params = jax.device_put(params, device)")
def pinned_batch(name: str, changed: bool) -> None:
    import jax
    import jax.numpy as jnp

    update = jax.jit(lambda params, batch: params - 0.1 * jax.grad(lambda p: ((batch @ p) ** 2).sum())(params))
    device = jax.devices()[0]
    params = jnp.ones((4, 2))
    if changed:
        params = jax.device_put(params, device)
    for _ in range(6):
        batch = jax.device_put(jnp.ones((8, 4)), device)
        with coldstep.step(name):
            params = coldstep.wait(update(params, batch))


@case("jax", "weak_type", "total = jnp.zeros(())")
def running_total(name: str, changed: bool) -> None:
    import jax
    import jax.numpy as jnp

    add = jax.jit(lambda total, batch: total + batch.sum())
    total = jnp.zeros(()) if changed else 0.0
    for _ in range(6):
        with coldstep.step(name):
            total = coldstep.wait(add(total, jnp.ones(3)))


@case("jax", "dtype", "lr = 0.1")
def promoted(name: str, changed: bool) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np

    update = jax.jit(lambda params, lr: params - lr * params)
    params = jnp.ones(4, jnp.bfloat16)
    lr = 0.1 if changed else np.float32(0.1)
    for _ in range(6):
        with coldstep.step(name):
            params = coldstep.wait(update(params, lr))


@case("jax", "type", "momentum = jnp.zeros_like(params)")
def none_at_first(name: str, changed: bool) -> None:
    import jax
    import jax.numpy as jnp

    update = jax.jit(lambda momentum, params: params if momentum is None else 0.9 * momentum + params)
    params = jnp.ones(4)
    momentum = jnp.zeros_like(params) if changed else None
    for _ in range(6):
        with coldstep.step(name):
            momentum = coldstep.wait(update(momentum, params))


@case("torch.compile", "shape", "torch._dynamo.mark_dynamic(batch, 0)")
def lengths(name: str, changed: bool) -> None:
    import torch

    forward = torch.compile(lambda batch: batch.sin().sum(), backend="eager")
    for length in (8, 6, 7, 5, 9, 4):
        batch = torch.ones(length, 4)
        if changed:
            torch._dynamo.mark_dynamic(batch, 0)
        with coldstep.step(name):
            coldstep.wait(forward(batch))


@case("torch.compile", "python_scalar", "lr = torch.tensor(lr)")
def schedule(name: str, changed: bool) -> None:
    import torch

    update = torch.compile(lambda weight, lr: weight - lr * weight, backend="eager")
    weight = torch.ones(4)
    for n in range(6):
        lr = 0.1 / (n + 1)
        with coldstep.step(name):
            weight = coldstep.wait(update(weight, torch.tensor(lr) if changed else lr))


def lazily(
    name: str, rows: int, momentum: float = 0.0, *, state: bool = False, synced: bool = True, cleared: bool = True
) -> None:
    """A loop of torch_xla's, on as many rows as no other, whose graphs would be this one's."""
    import torch
    import torch_xla

    device = torch_xla.device()
    model = torch.nn.Linear(4, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    batch = torch.randn(rows, 4, device=device)
    if state:
        optimizer.state.update({p: {"momentum_buffer": torch.zeros_like(p)} for p in model.parameters()})
    if synced:
        torch_xla.sync()
    for _ in range(6):
        with coldstep.step(name):
            if cleared:
                optimizer.zero_grad()
            loss = model(batch).pow(2).sum()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            coldstep.wait(loss)


@case("torch_xla", "pending_setup", "torch_xla.sync()")
def unsynced(name: str, changed: bool) -> None:
    lazily(name, 5 + changed, synced=changed)


@case("torch_xla", "optimizer_state", "optimizer.state.update({p: {…: torch.zeros_like(p)} for p in …})")
def new_state(name: str, changed: bool) -> None:
    lazily(name, 7 + changed, momentum=0.9, state=changed)


@case("torch_xla", "gradient_state", "optimizer.zero_grad()")
def never_cleared(name: str, changed: bool) -> None:
    lazily(name, 9 + changed, cleared=changed)


@case("torch_xla", "baked_constant", "scale = torch.tensor([scale], device=device)")
def scaled(name: str, changed: bool) -> None:
    import torch
    import torch_xla

    device = torch_xla.device()
    weight = torch.ones(3 + changed).to(device)
    torch_xla.sync()
    for n in range(6):
        scale = 1.0 + 0.1 * n
        with coldstep.step(name):
            total = (weight.sin() * (torch.tensor([scale], device=device) if changed else scale)).sum()
            torch_xla.sync()
            coldstep.wait(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default="settling.pftrace", help="the trace (%(default)s)")
    options = parser.parse_args()
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    lazy = importlib.util.find_spec("torch_xla") is not None
    cases = [each for each in CASES if lazy or each.stack != "torch_xla"]
    with coldstep.trace(options.output) as run:
        for each in cases:
            for changed in (False, True):
                each.train(_name(each, changed), changed)
    found = {row.name: row for row in coldstep.load(run.path).settling}
    print("stack          cause            settles at step")
    for each in cases:
        before, after = (found[_name(each, changed)] for changed in (False, True))
        causes = ", ".join(dict.fromkeys(str(row.cause) for row in before.causes))
        print(f"{each.stack:15}{causes:17}{_at(before)}; {_at(after)} with {each.change}")


def _name(each: Case, changed: bool) -> str:
    return f"{each.train.__name__}{' changed' if changed else ''}"


def _at(row: Settling) -> str:
    return "none" if row.settled_at_step is None else str(row.settled_at_step)


if __name__ == "__main__":
    main()
