"""A global's value is compiled in."""
# expect: global LR 0.1 -> 0.05
# settles: 2
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep

LR = 0.1


@torch.compile(backend="eager")
def train_step(x):
    return x - LR * x


for lr in (0.1, 0.05, 0.025, 0.0125, 0.006):
    LR = lr
    with coldstep.step():
        coldstep.wait(train_step(torch.ones(3)))
