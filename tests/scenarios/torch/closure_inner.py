"""A number captured by a function that is passed as an argument."""
# expect: closure scale 1 -> 2
# before: torch 2.6: PyTorch makes no captured number a symbol

import torch

import coldstep


def scaled(scale):
    return lambda x: x * scale


@torch.compile(backend="eager")
def apply(function, x):
    return function(x)


for scale in (1, 1, 2, 3):
    with coldstep.step():
        coldstep.wait(apply(scaled(scale), torch.ones(3)))
