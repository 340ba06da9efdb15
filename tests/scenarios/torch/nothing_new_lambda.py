"""The same lambda, compiled anew in each step, shares its variants."""
# expect: nothing
# settles: 1

import torch

import coldstep

for _ in range(4):
    compiled = torch.compile(lambda x: x * 2, backend="eager")
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
