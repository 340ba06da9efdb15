"""The requests' arguments are placed with `device_put`, the warm-up's are not.

Rebuilt from vllm-project/tpu-inference#176.
"""
# late: committed x

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def model(x, cache):
    return (x * 2).sum(), cache + x


cache = jnp.zeros((4, 8))
x = jnp.ones((4, 8))
model(x, cache)
coldstep.ready()
with coldstep.step("request"):
    coldstep.wait(model(jax.device_put(x, jax.devices()[0]), cache))
