"""A step counter as a Python number: compiled as a constant, then once more as a variable."""
# expect: python_scalar step 0 -> 1
# settles: 2
# settling: python_scalar

import torch

import coldstep


@torch.compile(backend="eager")
def train_step(x, step):
    return x * step


for n in range(6):
    with coldstep.step():
        coldstep.wait(train_step(torch.ones(3), n))
