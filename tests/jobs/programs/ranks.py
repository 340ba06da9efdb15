"""What a launcher starts as ranks: each compiles, all but the first twice."""

import os

import torch
from counting import torch_counted

rank = int(os.environ.get("RANK", "0"))
step = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
for n in (3, 3 + rank):
    step(torch.ones(n))
torch_counted()
