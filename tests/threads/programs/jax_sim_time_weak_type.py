"""Simulate a damped pendulum with a jitted physics step and print its energy."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class SimData(NamedTuple):
    qpos: jax.Array
    qvel: jax.Array
    time: jax.Array


def make_data():
    return SimData(
        qpos=jnp.full((4,), 0.5, dtype=jnp.float32),
        qvel=jnp.zeros((4,), dtype=jnp.float32),
        time=jnp.asarray(0.0),
    )


@jax.jit
def sim_step(timestep, data):
    qacc = -9.81 * jnp.sin(data.qpos) - 0.1 * data.qvel
    qvel = data.qvel + timestep * qacc
    qpos = data.qpos + timestep * qvel
    return SimData(qpos, qvel, data.time + timestep)


timestep = jnp.float32(0.002)
data = make_data()
for _ in range(6):
    data = sim_step(timestep, data)
    energy = jnp.sum(0.5 * data.qvel**2 + 9.81 * (1.0 - jnp.cos(data.qpos)))
    print("value", repr(float(energy)))
print("value", repr(float(data.time)))
# /// thread
# address = "https://github.com/google-deepmind/mujoco/issues/2306"
# asked = "The jitted MJX step compiles at the first call and once more at the second call, although no shape changes."
# answer = "mjx_data.time begins as a weakly typed scalar and comes back strongly typed; create it with a dtype."
# stack = "jax"
# mechanism = "weak_type"
# argument = "data.time"
# before = "float32[] weak_type"
# after = "float32[]"
# line = 19
# lines_accepted = [24, 34]
# compiles = [2, 1]
# counted = "compiles of jit(sim_step) in JAX_LOG_COMPILES"
# cure = "Give the starting time a dtype: jnp.asarray(0.0, dtype=jnp.float32) in make_data."
# cure_lines = [{line = 19, code = "        time=jnp.asarray(0.0, dtype=jnp.float32),"}]
# cure_environment = {}
# losses = "equal"
# ///
