"""The code branches on a size: two sides, two variants."""
# expect: shape x f32[8] -> f32[3]

import torch

import coldstep


@torch.compile(backend="eager", dynamic=True)
def step(x):
    return x * 2 if x.shape[0] > 4 else x * 3


for size in (8, 7, 6, 3, 2, 9):
    with coldstep.step():
        coldstep.wait(step(torch.ones(size)))
