"""The default of an inlined function's argument is changed."""
# expect: closure scale 2 -> 3
# expect: closure scale 3 -> 4
# before: torch 2.10: PyTorch 2.9 looks at no default of an inlined function

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
