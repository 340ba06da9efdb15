"""The loss is read in every step, before the sync: a graph of its own, the same each time."""
# expect: nothing
# settles: 1
# break: host_read

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for _ in range(5):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        loss.item()
        torch_xla.sync()
        coldstep.wait(loss)
