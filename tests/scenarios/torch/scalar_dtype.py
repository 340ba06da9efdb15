"""A dtype as an argument."""
# expect: python_scalar dtype torch.float32 -> torch.float64

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, dtype):
    return x.sum().to(dtype)


for dtype in (torch.float32, torch.float32, torch.float64, torch.float32):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), dtype))
