import torch


@torch.compile(backend="aot_eager")
def step(tokens):
    return (tokens * 2).sum()


for n in (8, 8, 5, 6):
    tokens = torch.arange(n * 33).reshape(n, 33)
    print("loss", step(tokens[:, :-1]).item())
