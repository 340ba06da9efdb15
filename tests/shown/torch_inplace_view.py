"""A function transposes its input itself."""

# shows: breaks _BY_REASON[[Ii]nplace view on a graph input]
import torch


@torch.compile(backend="eager")
def f(x):
    x.t_()
    return x.sum()


for _ in range(3):
    print("loss", float(f(torch.ones(2, 4))))
