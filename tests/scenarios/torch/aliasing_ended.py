"""Two arguments were one tensor in the first call, and are two later."""
# expect: aliasing x "the same tensor as y" -> "another tensor than y"

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, y):
    return x + y


x, y = torch.ones(3), torch.zeros(3)
for pair in ((x, x), (y, y), (x, y), (x, x)):
    with coldstep.step():
        coldstep.wait(step(*pair))
