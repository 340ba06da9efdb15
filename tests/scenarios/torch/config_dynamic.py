"""The same function with another option."""
# expect: config dynamic None -> True

import torch

import coldstep


def step(x):
    return x.sin()


for dynamic in (None, None, True, None):
    with coldstep.step():
        coldstep.wait(torch.compile(step, backend="eager", dynamic=dynamic)(torch.ones(3)))
