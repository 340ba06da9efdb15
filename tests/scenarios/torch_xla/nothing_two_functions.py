"""Two functions, each with one graph of its own."""
# expect: nothing
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
x = torch.ones(5, 4).to(device)
up = torch_xla.compile(lambda x: model(x).sum())
down = torch_xla.compile(lambda x: model(x).mean())
for _ in range(4):
    with coldstep.step():
        coldstep.wait((up(x), down(x)))
