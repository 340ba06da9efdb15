"""Another shape and another dtype at once: PyTorch names the dtype."""
# expect: dtype x f32[4] -> f64[5]

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for x in (torch.ones(4), torch.ones(4), torch.ones(5, dtype=torch.float64), torch.ones(4)):
    with coldstep.step():
        coldstep.wait(step(x))
