"""A branch on a tensor's value."""
# expect: nothing
# settles: 1
# break: data_dependent

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    if x.sum() > 0:
        return x + 1
    return x * 2


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
