"""Compiles for other shapes, numbers and modes; breaks; meets a limit; and forgets."""

import torch

import coldstep

torch._dynamo.config.recompile_limit = 4
SCALE = 2


@torch.compile(backend="eager", dynamic=False)
def train_step(x, n):
    return (x * n * SCALE).sum()


@torch.compile(backend="eager")
def broken(x):
    x = x + 1
    if x.sum() > 0:
        return x * 2
    return x


for size, n in ((8, 2), (8, 2), (5, 2), (5, 3)):
    with coldstep.step():
        print(train_step(torch.ones(size), n).item())
with coldstep.step(), torch.no_grad():
    print(train_step(torch.ones(5), 3).item())
SCALE = 4
with coldstep.step():
    print(train_step(torch.ones(5), 3).item())
with coldstep.step("break"):
    print(broken(torch.ones(8)).sum().item())
torch.compiler.reset()
with coldstep.step():
    print(train_step(torch.ones(5), 3).item())
