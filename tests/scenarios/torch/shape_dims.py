"""Two dimensions change one after the other."""
# expect: shape x f32[8,4] -> f32[6,4]
# expect: shape x f32[6,4] -> f32[6,5]

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for size in ((8, 4), (6, 4), (7, 4), (6, 5), (9, 9)):
    with coldstep.step():
        coldstep.wait(step(torch.ones(size)))
