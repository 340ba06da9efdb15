"""A transposed argument has other strides."""
# expect: layout x f32[3,3] -> "f32[3,3] stride(1,3)"

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


x = torch.ones(3, 3)
for value in (x, x, x.t(), x):
    with coldstep.step():
        coldstep.wait(step(value))
