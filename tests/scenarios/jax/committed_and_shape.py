"""Parameters come back pinned, and the batch is smaller: the trace says shape."""
# expect: shape x "f32[8] committed" -> "f32[5] committed"

import jax
import jax.numpy as jnp
import numpy as np

import coldstep


@jax.jit
def step(w, x):
    return w + x.sum()


w = jnp.ones(())
for size in (8, 5):
    with coldstep.step():
        w = coldstep.wait(step(w, jax.device_put(np.ones(size, np.float32), jax.devices()[0])))
