"""The flow in Equinox: `update` is a step of training, `calls` what it is called with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from examples.flow_matching import molecules as rules
from examples.flow_matching.molecules import CALLS, HEADS, KEEP, LAYERS, RATE, SIZES, WAVES, WIDTH, Batch, Trainer

_ADAM = optax.scale_by_adam()


class Block(eqx.Module):
    """Attention among the atoms, then a network for each."""

    mix: eqx.nn.Linear
    out: eqx.nn.Linear
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    norm: eqx.nn.LayerNorm

    def __init__(self, key: jax.Array) -> None:
        self.mix = eqx.nn.Linear(WIDTH, 3 * WIDTH, key=key)
        self.out = eqx.nn.Linear(WIDTH, WIDTH, key=key)
        self.up = eqx.nn.Linear(WIDTH, 2 * WIDTH, key=key)
        self.down = eqx.nn.Linear(2 * WIDTH, WIDTH, key=key)
        self.norm = eqx.nn.LayerNorm(WIDTH, use_weight=False, use_bias=False)

    def __call__(self, h: jax.Array, atoms: jax.Array) -> jax.Array:
        each = jax.vmap
        parts = jnp.split(each(self.mix)(each(self.norm)(h)), 3, -1)
        q, k, v = (part.reshape(-1, HEADS, WIDTH // HEADS) for part in parts)
        scores = jnp.einsum("ihd,jhd->hij", q, k) / (WIDTH // HEADS) ** 0.5
        weights = jax.nn.softmax(jnp.where(atoms > 0, scores, -1e9), -1)
        h = h + each(self.out)(jnp.einsum("hij,jhd->ihd", weights, v).reshape(-1, WIDTH))
        return h + each(self.down)(jax.nn.gelu(each(self.up)(each(self.norm)(h))))


class Flow(eqx.Module):
    """The velocity of each atom at a time; an atom is its place in the chain."""

    place: jax.Array
    first: eqx.nn.Linear
    blocks: list[Block]
    last: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.place = jnp.zeros((SIZES[-1], WIDTH))
        self.first = eqx.nn.Linear(3 + 2 * WAVES, WIDTH, key=key)
        self.blocks = [Block(key) for _ in range(LAYERS)]
        self.last = eqx.nn.Linear(WIDTH, 3, key=key)

    def __call__(self, x: jax.Array, t: jax.Array, atoms: jax.Array) -> jax.Array:
        angles = t * jnp.pi / 2 * 2.0 ** jnp.arange(WAVES)
        waves = jnp.broadcast_to(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)]), (len(x), 2 * WAVES))
        h = jax.vmap(self.first)(jnp.concatenate([x, waves], -1)) + self.place[: len(x)]
        for block in self.blocks:
            h = block(h, atoms)
        return jax.vmap(self.last)(h)


def begin() -> Any:
    """The model, its running mean, and the optimizer's state."""
    rng = np.random.default_rng(0)
    leaves, tree = jax.tree.flatten(eqx.filter_eval_shape(Flow, jax.random.key(0)))
    flow = jax.tree.unflatten(tree, [jnp.asarray(rules.initial(rng, leaf.shape)) for leaf in leaves])
    return flow, flow, _ADAM.init(flow)


def loss(flow: Flow, x1: Any, x0: Any, t: Any, atoms: Any) -> jax.Array:
    """The mean square by which the velocity misses the straight way, of atoms alone."""
    between = x0 + t[:, None, None] * (x1 - x0)
    off = jax.vmap(flow, (0, 0, None))(between, t, atoms) - (x1 - x0)
    return jnp.sum(off**2 * atoms[:, None]) / (3 * len(x1) * jnp.sum(atoms))


@jax.jit
def update(state: Any, x1: Any, x0: Any, t: Any, atoms: Any, rate: Any) -> Any:
    """A step of Adam, and of the running mean."""
    flow, mean, adam = state
    value, slopes = jax.value_and_grad(loss)(flow, x1, x0, t, atoms)
    steps, adam = _ADAM.update(slopes, adam)
    flow = jax.tree.map(lambda weight, step: weight - rate * step, flow, steps)
    mean = jax.tree.map(lambda kept, weight: KEEP * kept + (1 - KEEP) * weight, mean, flow)
    return (flow, mean, adam), value


def calls() -> Iterator[Any]:
    """What `update` will be called with."""
    state = begin()
    return ((state, *batch, np.float32(RATE)) for batch in islice(rules.batches(SIZES), CALLS))


def trainer(_backend: str, *, dynamic: bool) -> Trainer:
    """A model that is trained by its updates; sizes are never left open."""
    assert not dynamic
    state = begin()
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, _seconds, **_: events.append(event))

    def step(batch: Batch, rate: float) -> Any:
        nonlocal state
        state, value = update(state, *batch, np.float32(rate))
        return value

    velocity = jax.jit(jax.vmap(Flow.__call__, (None, 0, None, None)))
    return Trainer(
        step,
        None,
        lambda x, t: velocity(state[1], x, np.float32(t), np.ones(x.shape[1], np.float32)),
        lambda: sum(event.endswith("backend_compile_duration") for event in events),
    )
