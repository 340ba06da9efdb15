import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def step(w, x):
    return w - np.float32(0.1) * x.mean()


w = jnp.ones(4, jnp.bfloat16)
for _i in range(5):
    w = step(w, jnp.ones(4))
    print("loss", float(w.sum()))
