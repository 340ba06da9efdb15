"""A branch on a size that is dynamic: each answer has a variant of its own."""
# expect: shape x f32[4] -> f32[5]
# expect: shape x f32[5] -> f32[6]

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin() if x.shape[0] % 3 == 0 else x.cos()


for size in (4, 4, 5, 6, 7, 9):
    with coldstep.step():
        coldstep.wait(step(torch.ones(size)))
