"""Simulates a batch of balls with a jitted step of the physics, mapped over the batch."""

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Model(NamedTuple):
    gravity: jax.Array
    stiffness: jax.Array
    damping: jax.Array
    timestep: float = 0.01


class Data(NamedTuple):
    qpos: jax.Array
    qvel: jax.Array
    time: jax.Array


def contact_force(model, qpos, qvel):
    depth = jnp.maximum(0.1 - qpos[2], 0.0)
    return jnp.where(depth > 0, model.stiffness * depth - model.damping * qvel[2], 0.0)


def step(model, data):
    force = model.gravity + jnp.array([0.0, 0.0, 1.0]) * contact_force(model, data.qpos, data.qvel)
    qvel = data.qvel + model.timestep * force
    return Data(data.qpos + model.timestep * qvel, qvel, data.time + model.timestep)


def make_batch(key, size):
    qpos = jnp.array([0.0, 0.0, 1.0]) + 0.1 * jax.random.normal(key, (size, 3))
    return Data(qpos, jnp.zeros((size, 3)), jnp.zeros(size))


model = Model(jnp.array([0.0, 0.0, -9.81]), jnp.asarray(500.0), jnp.asarray(5.0))
batch = make_batch(jax.random.key(0), 16)

jit_step = jax.vmap(jax.jit(step), in_axes=(None, 0))
for frame in range(20):
    start = time.time()
    for _ in range(3):
        batch = jit_step(model, batch)
    height = float(batch.qpos[:, 2].mean())
    if frame % 5 == 0:
        print("Time elapsed:", round(time.time() - start, 5))
        print("value", repr(height))
# /// thread
# address = "https://github.com/google-deepmind/mujoco/issues/1516"
# asked = "A batch of one ball takes 0.4 s a step, where one ball takes 0.5 ms."
# answer = """\
# A maintainer: wrapping a function in jax.vmap does not JIT, so each call runs unjitted code; \
# jax.jit(jax.vmap(step))."""
# stack = "jax"
# mechanism = "fast_path_miss"
# argument = "jax.vmap(jax.jit(step), in_axes=(None, 0))"
# before = ""
# after = ""
# line = 42
# lines_accepted = [28, 45, 46]
# compiles = [60, 1]
# counted = "calls that trace the batching of step (a call takes 0.7 ms, with the cure a tenth)"
# cure = "Jit the vmap."
# cure_lines = [
#   {line = 42, code = "jit_step = jax.jit(jax.vmap(step, in_axes=(None, 0)))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
