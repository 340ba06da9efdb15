"""A metric state made by `jnp.asarray(0.)` is weakly typed, too."""
# expect: weak_type state['loss'] "f32[] weak" -> f32[]
# settles: 2
# settling: weak_type

import jax
import jax.numpy as jnp
import numpy as np

import coldstep


@jax.jit
def step(state, x):
    return {"loss": 0.9 * state["loss"] + 0.1 * x.mean(), "seen": state["seen"] + 1}


state = {"loss": jnp.asarray(0.0), "seen": jnp.zeros((), jnp.int32)}
for _ in range(5):
    with coldstep.step():
        state = coldstep.wait(step(state, np.ones(3, np.float32)))
