"""Another number of arguments."""
# expect: container xs "tuple of 2" -> "tuple of 3"

import torch

import coldstep


@torch.compile(backend="eager")
def total(*xs):
    return sum(x.sum() for x in xs)


for n in (2, 2, 3, 2):
    with coldstep.step():
        coldstep.wait(total(*(torch.ones(3) + i for i in range(n))))
