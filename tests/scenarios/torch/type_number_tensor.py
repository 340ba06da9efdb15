"""A number becomes a tensor."""
# expect: type scale 2.0 -> f32[]

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, scale):
    return x * scale


for scale in (2.0, 2.0, torch.tensor(2.0), 2.0):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), scale))
