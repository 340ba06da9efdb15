import random

import torch


@torch.compile(backend="aot_eager")
def fade(x):
    x = x - x.mean()
    factor = random.random()
    return x * factor


random.seed(0)
for i in range(3):
    print("loss", fade(torch.arange(4.0) + i).abs().sum().item())
