"""The same function compiled by two backends."""
# expect: config backend eager -> aot_eager

import torch

import coldstep


def step(x):
    return x.sin()


for backend in ("eager", "eager", "aot_eager", "eager"):
    with coldstep.step():
        coldstep.wait(torch.compile(step, backend=backend)(torch.ones(3)))
