import torch

tables = {}


def table(x):
    name = type(x).__name__
    if name not in tables:
        tables[name] = 2.0
    return tables[name]


@torch.compile(backend="aot_eager")
def step(x):
    return (x * table(x)).sum()


for i in range(4):
    x = torch.ones(3) * i
    print("loss", step(x).item())
