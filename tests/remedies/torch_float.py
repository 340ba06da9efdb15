import torch

torch.manual_seed(0)
w = torch.randn(4, 4)


@torch.compile(backend="aot_eager")
def step(x, scale):
    return ((x @ w) * scale).sum()


for i in range(5):
    x = torch.ones(8, 4)
    scale = 0.1 * i + 1.5
    print("loss", step(x, scale).item())
