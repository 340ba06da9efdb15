"""The same of a function, whose name is the module's own."""

import torch


def step(x):
    return (x * 2).sum()


torch.compile(step, backend="eager")
for i in range(4):
    print("loss", step(torch.ones(2, 3) * i).item())
