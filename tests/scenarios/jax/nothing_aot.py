"""A program compiled ahead of time is called again, and then the function itself."""
# expect: nothing
# before: jax 0.5: the call compiles again, for JAX has put another mesh context into its key

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x * 2


x = np.ones(3, np.float32)
compiled = step.lower(x).compile()
for run in (compiled, compiled, compiled, step):
    with coldstep.step():
        coldstep.wait(run(x))
