"""Compiles by Inductor, or has it from disk; the backward later than the forward."""

import torch

import coldstep


@torch.compile
def loss_of(x):
    return (x * 3).sum()


for size in (8, 8, 5):
    x = torch.ones(size, requires_grad=True)
    with coldstep.step():
        loss = loss_of(x)
    with coldstep.step("backward"):
        loss.backward()
    print(loss.item(), x.grad.sum().item())
