import torch


@torch.compile(backend="aot_eager")
def step(x):
    return x.view(-1, 4).sum() if x.is_contiguous() else x.sum() * 2


f = torch.compile(lambda a: (a * 2).sum(), backend="aot_eager")
for i in range(4):
    a = torch.ones(6, 4)
    if i > 1:
        a = a.t().contiguous().t()
    y = f(a)
    print("loss", y.item())
