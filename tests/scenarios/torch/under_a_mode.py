"""The first call is under a mode, and the function is never looked at again."""
# expect: nothing
# finding: uncompiled

import torch
from torch.utils.flop_counter import FlopCounterMode


@torch.compile(backend="eager")
def step(x):
    return x @ x


with FlopCounterMode(display=False):
    step(torch.ones(3, 3))
for _ in range(4):
    step(torch.ones(3, 3))
