"""A list of another length."""
# expect: container xs "list of 1" -> "list of 2"
# expect: container xs "list of 2" -> "list of 3"

import torch

import coldstep


@torch.compile(backend="eager")
def total(xs):
    return sum(x.sum() for x in xs)


for n in (1, 1, 2, 3):
    with coldstep.step():
        coldstep.wait(total([torch.ones(3) for _ in range(n)]))
