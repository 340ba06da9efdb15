"""A flag and a longer list."""
# expect: python_scalar flag False -> True
# expect: container xs "list of 1" -> "list of 2"

import torch

import coldstep


@torch.compile(backend="eager")
def total(xs, flag):
    return sum(x.sum() for x in xs) * (2 if flag else 1)


x = torch.ones(3)
for call in (([x], False), ([x], True), ([x, x + 1], True), ([x], True)):
    with coldstep.step():
        coldstep.wait(total(*call))
