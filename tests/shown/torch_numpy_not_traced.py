"""NumPy in a function where a setting keeps it out of graphs."""

# shows: breaks _BY_REASON[trace_numpy]
import torch
import torch._dynamo

torch._dynamo.config.trace_numpy = False


@torch.compile(backend="eager")
def f(x):
    return (x * 2).detach().numpy().sum()


for _ in range(3):
    print("loss", float(f(torch.ones(2, 4))))
