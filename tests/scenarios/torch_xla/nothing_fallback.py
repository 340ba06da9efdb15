"""An operation that runs on the CPU cuts the graph, and gives the same shape each time."""
# expect: nothing
# settles: 1
# break: unsupported_call

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
x = torch.arange(20.0).reshape(5, 4).to(device)
torch_xla.sync()
for _ in range(4):
    with coldstep.step():
        places = (model(x).detach() * 0 + 1).nonzero()
        total = places.sum()
        torch_xla.sync()
        coldstep.wait(total)
