"""A tensor becomes a Parameter."""
# expect: type x Tensor -> Parameter

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


x = torch.ones(3)
for value in (x, x, torch.nn.Parameter(x), x):
    with coldstep.step():
        coldstep.wait(step(value))
