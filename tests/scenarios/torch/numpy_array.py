"""A NumPy array of another size."""
# expect: shape x f64[3] -> f64[4]

import numpy as np
import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x * 2


for size in (3, 3, 4, 5):
    with coldstep.step():
        coldstep.wait(step(np.ones(size)))
