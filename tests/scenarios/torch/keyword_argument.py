"""An argument that only some calls pass."""
# expect: keyword scale - -> 2.0

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, **options):
    return x * options.get("scale", 1)


for options in ({}, {}, {"scale": 2.0}, {}):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), **options))
