"""Two threads compile one function for two shapes, one after the other."""
# expect: shape x f32[8] -> f32[5]

import threading

import jax
import numpy as np


@jax.jit
def step(x):
    return x * 2


for size in (8, 5):
    thread = threading.Thread(target=step, args=(np.ones(size, np.float32),))
    thread.start()
    thread.join()
