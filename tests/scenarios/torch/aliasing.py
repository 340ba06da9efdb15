"""The same tensor is passed twice."""
# expect: aliasing y "another tensor than x" -> "the same tensor as x"

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, y):
    return x + y


x, y = torch.ones(3), torch.zeros(3)
for pair in ((x, y), (y, x), (x, x), (x, y)):
    with coldstep.step():
        coldstep.wait(step(*pair))
