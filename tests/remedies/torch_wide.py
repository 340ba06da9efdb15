import torch


@torch.compile(backend="aot_eager")
def scale(x):
    return x * 2


scale(torch.zeros(4, dtype=torch.float32))
for i in range(3):
    x = torch.arange(4, dtype=torch.float64) + i
    y = scale(x)
    print("loss", y.sum().item())
