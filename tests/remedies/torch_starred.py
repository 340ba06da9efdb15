import torch


@torch.compile(backend="aot_eager")
def step(*tensors):
    return (tensors[0] * 2).sum() + tensors[1].sum()


for n in (8, 8, 5, 6):
    x = torch.ones(n, 4)
    y = torch.ones(3)
    loss = step(x, y)
    print("loss", loss.item())
