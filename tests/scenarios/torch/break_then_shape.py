"""A graph break makes two frames: each compiles again for the new size."""
# expect: shape x f32[8] -> f32[5]
# expect: shape y f32[8] -> f32[5]
# break: explicit

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


for size in (8, 8, 5, 8):
    with coldstep.step():
        coldstep.wait(step(torch.ones(size)))
