"""The first call reads a gradient that the second has not."""

# shows: advice _ANY[gradient_state]
import torch

p = torch.nn.Parameter(torch.ones(4))


@torch.compile(backend="eager")
def f(p):
    return p.sum() if p.grad is None else p.grad.sum()


p.grad = torch.ones(4)
print("loss", float(f(p)))
p.grad = None
print("loss", float(f(p)))
