"""reset() between two steps."""
# expect: cache_cleared - "generation 1" -> "generation 2"
# settles: 1

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for n in range(5):
    if n == 4:
        torch.compiler.reset()
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
