"""An argument that needs a gradient, after one that does not."""
# expect: requires_grad x f32[3] -> "f32[3] requires_grad"

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


x = torch.ones(3)
for value in (x, x, torch.ones(3, requires_grad=True), x):
    with coldstep.step():
        coldstep.wait(step(value))
