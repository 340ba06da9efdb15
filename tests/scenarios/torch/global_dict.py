"""A number in a global dict of settings."""
# expect: global CONFIG['lr'] 0.1 -> 0.05
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep

CONFIG = {"lr": 0.1}


@torch.compile(backend="eager")
def train_step(x):
    return x - CONFIG["lr"] * x


for lr in (0.1, 0.1, 0.05, 0.025):
    CONFIG["lr"] = lr
    with coldstep.step():
        coldstep.wait(train_step(torch.ones(3)))
