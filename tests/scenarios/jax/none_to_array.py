"""A state's deep leaf is None at first."""
# expect: type state['cache'][0] None -> f32[3]
# settles: 2
# settling: type

import jax
import jax.numpy as jnp
import numpy as np

import coldstep


@jax.jit
def decode(state, x):
    old = state["cache"][0]
    return {"cache": [x if old is None else old + x], "n": state["n"] + 1}


state = {"cache": [None], "n": jnp.zeros((), jnp.int32)}
for _ in range(5):
    with coldstep.step():
        state = coldstep.wait(decode(state, np.ones(3, np.float32)))
