"""The engine is warmed up with two and more; PyTorch compiles a batch of one apart, whatever is dynamic.

Rebuilt from sgl-project/sglang#24307, where it was the other way round.
"""
# late: shape tokens

import torch

import coldstep


@torch.compile(backend="eager", dynamic=True)
def embed(tokens, low):
    mask = tokens >= low
    return torch.where(mask, tokens - low, 0), ~mask


for size in (2, 4, 16):
    embed(torch.zeros(size, dtype=torch.int64), 3)
coldstep.ready()
for size in (5, 1, 7):
    with coldstep.step("request"):
        embed(torch.zeros(size, dtype=torch.int64), 3)
