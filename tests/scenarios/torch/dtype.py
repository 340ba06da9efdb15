"""One call in double precision."""
# expect: dtype x f32[3] -> f64[3]

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for dtype in (torch.float32, torch.float32, torch.float64, torch.float32):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3, dtype=dtype)))
