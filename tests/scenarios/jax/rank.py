"""The last input lacks its batch dimension."""
# expect: shape x f32[1,4] -> f32[4]

import jax
import numpy as np

import coldstep


@jax.jit
def forward(x):
    return x.sum()


for shape in ((1, 4),) * 4 + ((4,),):
    with coldstep.step():
        coldstep.wait(forward(np.ones(shape, np.float32)))
