"""Compiles by torch.compile: for the first time, for another shape, around a graph break, and out of the disk cache."""
# mypy: ignore-errors

import torch

import coldstep


@torch.compile(backend="eager", dynamic=False)
def train_step(x):
    return (x * 2).sum()


@torch.compile(backend="eager")
def broken(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@torch.compile
def cached(x):
    return (x * 3).sum()


for size in (8, 8, 5):
    with coldstep.step():
        train_step(torch.ones(size))
with coldstep.step():
    broken(torch.ones(8))
for _ in range(2):
    with coldstep.step():
        cached(torch.ones(8))
    torch.compiler.reset()
