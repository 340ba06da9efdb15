"""Another default dtype."""
# expect: config default_dtype torch.float32 -> torch.float64

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


x = torch.ones(3)
for dtype in (torch.float32, torch.float32, torch.float64, torch.float32):
    torch.set_default_dtype(dtype)
    with coldstep.step():
        coldstep.wait(step(x))
