import torch

torch.manual_seed(0)
embedding = torch.randn(20, 4)


@torch.compile(backend="aot_eager")
def step(tokens, batch):
    return (embedding[tokens] * batch["mask"][..., None]).sum() + batch["weights"].sum()


for n in (8, 8, 5, 6):
    tokens = torch.arange(2 * n).reshape(2, n)
    batch = {"mask": torch.ones(2, n), "weights": torch.ones(n, n + 1)}
    loss = step(tokens, batch)
    print("loss", loss.item())
