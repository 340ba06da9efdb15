"""The calls are under a mode, where PyTorch compiles nothing; up to 2.13 it does not later, either."""
# expect: nothing
# finding: uncompiled

import torch
from torch.utils.flop_counter import FlopCounterMode


@torch.compile(backend="eager")
def step(x):
    return x @ x


with FlopCounterMode(display=False):
    for _ in range(4):
        step(torch.ones(3, 3))
