"""A learning rate as a Python number."""
# expect: python_scalar lr 0.1 -> 0.05
# settles: 2
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep


@torch.compile(backend="eager")
def train_step(x, lr):
    return x - lr * x


for lr in (0.1, 0.05, 0.025, 0.0125, 0.006):
    with coldstep.step():
        coldstep.wait(train_step(torch.ones(3), lr))
