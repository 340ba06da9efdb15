"""The same call on another device."""
# expect: device x f32[3] -> "f32[3] @meta"

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for device in ("cpu", "cpu", "meta", "cpu"):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3, device=device)))
