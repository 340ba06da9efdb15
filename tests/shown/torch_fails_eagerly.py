"""A view that no tensor of this size has."""

# shows: breaks _FAILS_EAGERLY
import torch


@torch.compile(backend="eager")
def f(x):
    y = x * 2
    y = y.view(3, 5)
    return y.sum()


print("loss", float(f(torch.ones(8))))
