"""Each batch has another length: the second one makes it a symbol, and all further ones fit."""
# expect: shape x f32[8,4] -> f32[6,4]
# settles: 2
# settling: shape

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for length in (8, 6, 7, 5, 9):
    with coldstep.step():
        coldstep.wait(step(torch.ones(length, 4)))
