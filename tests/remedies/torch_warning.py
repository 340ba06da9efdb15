import warnings

import torch

warnings.simplefilter("ignore")


@torch.compile(backend="aot_eager")
def step(x):
    y = torch.relu(x * 2)
    warnings.warn("of no use here", stacklevel=2)
    return y.sum() + 1


for n in range(4):
    loss = step(torch.full((4,), float(n)))
    print("loss", loss.item())
