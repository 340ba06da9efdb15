"""A partial with another bound value, as an argument."""
# expect: closure scale 1 -> 2

from functools import partial

import torch

import coldstep


def multiply(x, scale):
    return x * scale


@torch.compile(backend="eager")
def apply(function, x):
    return function(x)


for scale in (1, 1, 2, 3):
    with coldstep.step():
        coldstep.wait(apply(partial(multiply, scale=scale), torch.ones(3)))
