"""An optimizer of Optax that is made anew under a jitted step, which goes on with the first one."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

START = """
import jax
import jax.numpy as jnp
import optax

def loss(params):
    return jnp.sum(params ** 2)

params = jnp.ones(3)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))
state = optimizer.init(params)

@jax.jit
def step(params, state):
    updates, state = optimizer.update(jax.grad(loss)(params), state, params)
    return optax.apply_updates(params, updates), state
"""
RATES = """
for epoch in range(3):
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1 * 0.5 ** epoch))
    params, state = step(params, state)
"""
SCHEDULES = """
params, state = step(params, state)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.1, 100)))
params, state = step(params, state)
"""
METHOD = """
class Trainer:
    def __init__(self):
        self.optimizer = optax.sgd(0.1)
        self.step = jax.jit(self._step)

    def _step(self, params, state):
        updates, state = self.optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

trainer = Trainer()
state = trainer.optimizer.init(params)
params, state = trainer.step(params, state)
trainer.optimizer = optax.sgd(0.01)
params, state = trainer.step(params, state)
"""
ALIKE = """
for epoch in range(3):
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))
    params, state = step(params, state)
"""
FIRST_STATE = """
@jax.jit
def start(params):
    return optimizer.init(params)

for rate in (0.1, 0.2):
    optimizer = optax.adam(rate, mu_dtype=jnp.float32)
    start(params)
"""
STAGES = """
params, state = step(params, state)
optimizer = optax.sgd(0.1)
state = optimizer.init(params)

@jax.jit
def tune(params, state):
    updates, state = optimizer.update(jax.grad(loss)(params), state, params)
    return optax.apply_updates(params, updates), state

params, state = tune(params, state)
"""
INJECTED = """
optimizer = optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)
state = optimizer.init(params)
for epoch in range(3):
    state.hyperparams["learning_rate"] = 0.1 * 0.5 ** epoch
    params, state = step(params, state)
"""
SAMPLER = """
from typing import Any, NamedTuple

class Sampler(NamedTuple):
    init: Any
    step: Any

def sampler(rate):
    return Sampler(lambda position: position, lambda position: position - rate * jax.grad(loss)(position))

kernel = sampler(0.1)

@jax.jit
def draw(position):
    return kernel.step(position)

for rate in (0.1, 0.2):
    kernel = sampler(rate)
    params = draw(params)
"""


@pytest.mark.jax
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (RATES, ["step does not see that optimizer has changed: it was "
                 "'GradientTransformationExtraArgs(scale(step_size=-0.1))' when it was traced, now"]),
        (SCHEDULES, ["step does not see that optimizer has changed"]),
        (METHOD, ["_step does not see that self.optimizer has changed"]),
        (ALIKE, []),
        (FIRST_STATE, []),
        (STAGES, []),
        (INJECTED, []),
        (SAMPLER, []),
    ],
    ids=["rates", "schedules", "method", "alike", "first state", "stages", "injected", "sampler"],
)  # fmt: skip
def test_a_step_that_keeps_an_earlier_optimizer(source: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(START + source)
    program.warm("jax", ["coldstep", "run", "-o", "t.pftrace", "program.py"], tmp_path)
    rows = [row for row in coldstep.load(tmp_path / "t.pftrace").findings if row.kind == "stale_capture"]
    assert [row.text[: len(text)] for row, text in zip(rows, expected, strict=True)] == expected
    assert all("optax.inject_hyperparams" in row.advice for row in rows)
