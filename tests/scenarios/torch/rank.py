"""A missing batch dimension."""
# expect: shape x f32[3] -> f32[2,3]

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for size in ((3,), (3,), (2, 3), (3,)):
    with coldstep.step():
        coldstep.wait(step(torch.ones(size)))
