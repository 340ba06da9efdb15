"""A value is read from a tensor."""
# expect: nothing
# settles: 1
# break: data_dependent

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    y = x.sum().item()
    return x * y


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
