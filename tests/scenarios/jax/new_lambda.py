"""A lambda is made and jitted anew in every step."""
# expect: new_function - "<lambda> #1" -> "<lambda> #2"
# expect: new_function - "<lambda> #2" -> "<lambda> #3"

import jax
import numpy as np

import coldstep

x = np.ones(3, np.float32)
for _ in range(3):
    with coldstep.step():
        coldstep.wait(jax.jit(lambda x: x * 2)(x))
