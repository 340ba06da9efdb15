"""The default of an inlined function's argument is changed."""
# expect: closure scale 2 -> 3
# expect: closure scale 3 -> 4

import torch

import coldstep


def helper(x, scale=2):
    return x * scale


@torch.compile(backend="eager")
def step(x):
    return helper(x)


for scale in (2, 2, 3, 4):
    helper.__defaults__ = (scale,)
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
