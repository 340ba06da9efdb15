"""Prints what would_fit says that a step holds, and what XLA's allocator then held, both in bytes."""

import os

import jax
import jax.numpy as jnp

import coldstep

[device, *_] = jax.devices(os.environ["DEVICE"])


@jax.jit
def train_step(weights, batch):
    def loss_of(weights):
        x = batch
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return (x**2).mean()

    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss_of)(weights))


weights, batch = [jax.ShapeDtypeStruct((1024, 1024), "float32")] * 8, jax.ShapeDtypeStruct((8192, 1024), "float32")
expected = coldstep.would_fit(train_step, weights, batch).peak_bytes
weights = [jax.device_put(jnp.ones((1024, 1024)) / 1024, device) for _ in range(8)]
batch = jax.device_put(jnp.ones((8192, 1024)), device)
with coldstep.trace("run.pftrace"):
    for _ in range(3):
        with coldstep.step():
            weights = coldstep.wait(train_step(weights, batch))
print(expected, (device.memory_stats() or {}).get("peak_bytes_in_use", 0))
