"""A new lambda at every step, and a smaller last batch: even the same shape would have compiled."""
# expect: new_function - "<lambda> #1" -> "<lambda> #2"
# expect: new_function - "<lambda> #2" -> "<lambda> #3"

import jax
import numpy as np

import coldstep

for size in (8, 8, 5):
    with coldstep.step():
        coldstep.wait(jax.jit(lambda x: x * 2)(np.ones(size, np.float32)))
