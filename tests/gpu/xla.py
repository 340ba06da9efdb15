"""Trains with jax.jit on the device $DEVICE."""

import os

import jax
import jax.numpy as jnp

import coldstep

[device, *_] = jax.devices(os.environ["DEVICE"])
weights = jax.device_put(jnp.ones((256, 256)) / 256, device)
batch = jax.device_put(jnp.ones((64, 256)), device)


@jax.jit
def train_step(weights, batch):
    return weights - 0.1 * jax.grad(lambda w: jnp.tanh(batch @ w).mean())(weights)


with coldstep.trace("run.pftrace"):
    for _ in range(8):
        with coldstep.step():
            weights = coldstep.wait(train_step(weights, batch))
