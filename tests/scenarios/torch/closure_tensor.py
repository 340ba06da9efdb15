"""A captured tensor of another shape."""
# expect: shape data f32[4] -> f32[5]

import torch

import coldstep


def on(data):
    return torch.compile(lambda x: x + data.sum(), backend="eager")


for size in (4, 4, 5, 6):
    with coldstep.step():
        coldstep.wait(on(torch.ones(size))(torch.ones(3)))
