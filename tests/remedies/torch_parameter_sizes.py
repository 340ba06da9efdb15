import torch


@torch.compile(backend="aot_eager", dynamic=True)
def length(path):
    return (path[1:] - path[:-1]).square().sum()


for count in (12, 16):
    path = torch.nn.Parameter(torch.arange(count * 2.0).reshape(count, 2))
    print("loss", length(path).item())
