import torch


@torch.compile(backend="aot_eager", dynamic=True)
def step(x):
    return (x * 2).relu().sum()


for n in (1, 2, 4, 3):
    loss = step(torch.ones(n, 4))
    print("loss", loss.item())
