"""A function that is kept out of the graph."""
# expect: nothing
# settles: 1
# break: explicit

import torch

import coldstep


@torch.compiler.disable
def log(x):
    return x


@torch.compile(backend="eager")
def step(x):
    y = log(x + 1)
    return y * 2


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
