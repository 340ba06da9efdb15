"""Fits a trajectory through forward kinematics, for one recording after the other, each with a new model."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class KinematicTrajectory(eqx.Module):
    trajectory: eqx.nn.Linear
    scale_mixer: jax.Array
    forward: Callable

    def __init__(self, fk_fn, key):
        self.trajectory = eqx.nn.Linear(1, 3, key=key)
        self.scale_mixer = jnp.ones(3)
        self.forward = jax.jit(fk_fn)

    def __call__(self, time):
        return self.forward(self.trajectory(time) * self.scale_mixer)


def forward_kinematics(angles):
    reach = jnp.cumsum(angles)
    return jnp.stack((jnp.cos(reach).sum(), jnp.sin(reach).sum()))


def loss(model, times, positions):
    return jnp.mean(jnp.square(jax.vmap(model)(times) - positions))


optimizer = optax.adam(0.05)


@eqx.filter_jit
def step(model, opt_state, times, positions):
    value, grads = eqx.filter_value_and_grad(loss)(model, times, positions)
    updates, opt_state = optimizer.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, value


def fit(key, positions, steps=5):
    model = KinematicTrajectory(forward_kinematics, key)
    opt_state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    times = jnp.linspace(0.0, 1.0, 10)[:, None]
    for _ in range(steps):
        model, opt_state, value = step(model, opt_state, times, positions)
    return float(value)


for recording in range(4):
    key = jax.random.key(recording)
    print("loss", repr(fit(key, jax.random.normal(key, (10, 2)))))
# /// thread
# address = "https://github.com/patrick-kidger/equinox/issues/686"
# asked = "The second optimization, after the module is made again, compiles step again, because of its model argument."
# answer = """\
# The field forward is a new jax.jit(fk_fn) in each model, which is static and compared by identity: make the jitted \
# function once, or do not jit it there."""
# stack = "jax"
# mechanism = "static_argument"
# argument = "model.forward"
# before = ""
# after = ""
# line = 19
# lines_accepted = [45, 49, 37]
# compiles = [4, 1]
# counted = "compiles of step (jax_log_compiles)"
# cure = "Keep the function as it is given."
# cure_lines = [
#   {line = 19, code = "        self.forward = fk_fn"},
# ]
# cure_environment = {}
# losses = "close"
# ///
