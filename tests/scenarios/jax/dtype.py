"""The last batch comes as another dtype."""
# expect: dtype batch['x'] f32[8,4] -> bf16[8,4]
# settles: 1

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def train_step(batch):
    return (batch["x"] ** 2).sum()


for dtype in (jnp.float32,) * 4 + (jnp.bfloat16,):
    with coldstep.step():
        coldstep.wait(train_step({"x": jnp.ones((8, 4), dtype)}))
