"""Dimensions that were marked, or asked for, before the first call."""
# expect: nothing
# settles: 1

import torch

import coldstep


@torch.compile(backend="eager")
def marked(x):
    return x.sin()


@torch.compile(backend="eager", dynamic=True)
def dynamic(x):
    return x.cos()


for size in (8, 6, 5, 7):
    x = torch.ones(size, 4)
    torch._dynamo.mark_dynamic(x, 0)
    with coldstep.step():
        coldstep.wait((marked(x), dynamic(torch.ones(size, 3))))
