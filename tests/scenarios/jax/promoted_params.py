"""A float32 learning rate promotes bfloat16 parameters, silently and for good."""
# expect: dtype params['w'] bf16[4,2] -> f32[4,2]
# settles: 2
# settling: dtype
# pattern: fed_back_output

import jax
import jax.numpy as jnp
import numpy as np

import coldstep


@jax.jit
def train_step(params, x, lr):
    grads = jax.grad(lambda p: (x @ p["w"]).sum())(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)


params = {"w": jnp.ones((4, 2), jnp.bfloat16)}
x = jnp.ones((8, 4), jnp.bfloat16)
for _ in range(5):
    with coldstep.step():
        params = coldstep.wait(train_step(params, x, np.float32(0.1)))
