"""Two lambdas on one line, each compiled once."""
# expect: nothing

import jax
import numpy as np

double, square = jax.jit(lambda x: x * 2), jax.jit(lambda x: x**2)
for _ in range(3):
    square(double(np.ones(3, np.float32)))
