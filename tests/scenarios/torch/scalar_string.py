"""Each mode of a function that takes its name is a variant."""
# expect: python_scalar mode 'mean' -> 'sum'

import torch

import coldstep


@torch.compile(backend="eager")
def loss(x, mode):
    return x.mean() if mode == "mean" else x.sum()


for mode in ("mean", "mean", "sum", "mean", "sum"):
    with coldstep.step():
        coldstep.wait(loss(torch.ones(3), mode))
