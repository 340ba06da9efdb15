"""Rolls a random policy out in a small physics environment, one step after the other."""

import dataclasses
import time

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    q: jax.Array
    qd: jax.Array
    obs: jax.Array
    reward: jax.Array


class Chain:
    """Links of a chain that actuators pull."""

    action_size = 4
    dt = 0.02
    n_frames = 4

    def _obs(self, q, qd):
        return jnp.concatenate([jnp.sin(q), jnp.cos(q), qd])

    def reset(self, rng):
        q = jax.random.uniform(rng, (self.action_size,), minval=-0.1, maxval=0.1)
        qd = jnp.zeros_like(q)
        return State(q, qd, self._obs(q, qd), jnp.zeros(()))

    def _pipeline_step(self, q, qd, torque):
        coupling = jnp.roll(q, 1) - 2.0 * q + jnp.roll(q, -1)
        acceleration = torque - 9.81 * jnp.sin(q) + 3.0 * coupling - 0.1 * qd
        qd = qd + self.dt * acceleration
        return q + self.dt * qd, qd

    def step(self, state, action):
        q, qd = state.q, state.qd
        torque = jnp.clip(action, -1.0, 1.0)
        for _ in range(self.n_frames):
            q, qd = self._pipeline_step(q, qd, torque)
        reward = jnp.cos(q).sum() - 0.01 * jnp.square(torque).sum()
        return State(q, qd, self._obs(q, qd), reward)


env = Chain()
seed = jax.random.key(777)
reset_seed, state_seed = jax.random.split(seed)
state = env.reset(reset_seed)
started, returned = time.time(), 0.0
for i in range(40):
    state_seed, seed = jax.random.split(state_seed)
    action = jax.random.normal(seed, (env.action_size,))
    state = env.step(state, action)
    returned += float(state.reward)
    if i % 10 == 9:
        print("value", repr(returned))
print(f"{40 / (time.time() - started):.0f} steps a second")
# /// thread
# address = "https://github.com/google/brax/issues/349"
# asked = "brax very slow? An episode takes minutes on a good machine."
# answer = """\
# Jit env.reset and env.step (a user's example; the maintainer closes with "if you have any issues with jitted \
# speed")."""
# stack = "jax"
# mechanism = "silent_eager"
# argument = "env.step"
# before = ""
# after = ""
# line = 57
# lines_accepted = [40, 49, 52, 54]
# compiles = [22, 7]
# counted = "compiles (jax_log_compiles); each step is some fifty operations of Python's, with the cure one"
# cure = "Jit the environment's methods."
# cure_lines = [
#   {line = 52, code = """
# state = jax.jit(env.reset)(reset_seed)
# step = jax.jit(env.step)"""},
#   {line = 57, code = "    state = step(state, action)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
