"""An object that is called is jitted anew at every step."""
# expect: new_function - "__call__ #1" -> "__call__ #2"

import jax
import numpy as np

import coldstep


class Model:
    def __call__(self, x):
        return x * 2


x = np.ones(3, np.float32)
for _ in range(2):
    with coldstep.step():
        coldstep.wait(jax.jit(Model())(x))
