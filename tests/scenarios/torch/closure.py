"""A captured number that differs."""
# expect: closure scale 1.0 -> 2.0
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep


def scaled(scale):
    def step(x):
        return x * scale

    return torch.compile(step, backend="eager")


for scale in (1.0, 1.0, 2.0, 3.0):
    with coldstep.step():
        coldstep.wait(scaled(scale)(torch.ones(3)))
