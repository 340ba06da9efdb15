"""The bounds of a slice are compiled in."""
# expect: python_scalar part.start 0 -> 1

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, part):
    return x[part] * 2


for part in (slice(0, 2), slice(0, 2), slice(1, 2), slice(0, 2)):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), part))
