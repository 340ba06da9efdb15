"""Two lambdas on two lines."""
# expect: nothing
# settles: 1

import torch

import coldstep

double = torch.compile(lambda x: x * 2, backend="eager")
triple = torch.compile(lambda x: x * 3, backend="eager")
for _ in range(4):
    with coldstep.step():
        coldstep.wait(double(triple(torch.ones(3))))
