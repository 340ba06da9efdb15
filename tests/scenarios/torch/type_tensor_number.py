"""A tensor becomes a number."""
# expect: type scale f32[] -> 2.0

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, scale):
    return x * scale


for scale in (torch.tensor(2.0), torch.tensor(3.0), 2.0, torch.tensor(2.0)):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), scale))
