"""The last step runs under a mesh."""
# expect: config mesh None -> mesh(d=2)
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x.sum()


def run(x):
    with coldstep.step():
        coldstep.wait(step(x))


x = np.ones((8, 4), np.float32)
for _ in range(4):
    run(x)
with jax.set_mesh(jax.make_mesh((2,), ("d",))):
    run(x)
