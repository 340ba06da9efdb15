"""An argument that was passed by position is passed by keyword."""
# expect: keyword x "by position" -> "by keyword"
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def forward(params, x):
    return params["w"] * x


params, x = {"w": np.float32(2)}, np.ones(3, np.float32)
for n in range(5):
    with coldstep.step():
        coldstep.wait(forward(params, x) if n < 4 else forward(params, x=x))
