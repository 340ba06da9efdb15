"""Other values, NumPy for JAX arrays, padded batches: nothing is compiled again."""
# expect: nothing
# settles: 1

import jax
import jax.numpy as jnp
import numpy as np

import coldstep


@jax.jit
def step(x, lr):
    return x * lr


x = np.ones((8, 4), np.float32)
padded = np.zeros((8, 4), np.float32)
padded[:5] = 1
for batch, lr in ((x, 0.1), (x * 2, 0.2), (jnp.asarray(x), 0.3), (padded, 4.0), (x, 0.5)):
    with coldstep.step():
        coldstep.wait(step(batch, lr))
