"""A Python int counts steps, and the step returns a strongly typed count."""
# expect: weak_type n "i32[] weak" -> i32[]
# settles: 2
# settling: weak_type
# pattern: fed_back_output

import jax
import jax.numpy as jnp
import numpy as np

import coldstep


@jax.jit
def step(n, x):
    return jnp.where(x.sum() > 0, n + 1, jnp.int32(0))


n = 0
for _ in range(5):
    with coldstep.step():
        n = coldstep.wait(step(n, np.ones(3, np.float32)))
