"""A batch of one: sizes 0 and 1 are compiled for themselves, however dynamic the dimension is."""
# expect: shape x f32[8,4] -> f32[6,4]
# expect: shape x f32[6,4] -> f32[1,4]
# pattern: last_batch

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for size in (8, 6, 5, 7, 1):
    with coldstep.step():
        coldstep.wait(step(torch.ones(size, 4)))
