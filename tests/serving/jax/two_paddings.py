"""Two ways to pad that must agree and do not: the warm-up's buckets are powers of two, the scheduler rounds up to 24.

Rebuilt from sgl-project/sglang-jax#609.
"""
# late: shape batch['mask']
# late: shape batch['mask']

import jax
import jax.numpy as jnp
import numpy as np

import coldstep

weights = jnp.ones((32, 4))


@jax.jit
def decode(weights, batch):
    return jnp.where(batch["mask"][..., None], weights[batch["tokens"]], 0.0).sum(1)


def bucket(length):
    return 1 << (length - 1).bit_length()


def schedule(length):
    return -(-length // 24) * 24


def padded(size):
    return {"tokens": np.zeros((2, size), np.int32), "mask": np.ones((2, size), bool)}


for length in (16, 32, 64):
    decode(weights, padded(bucket(length)))
coldstep.ready()
for length in (20, 24, 40):
    with coldstep.step("request"):
        coldstep.wait(decode(weights, padded(schedule(length))))
