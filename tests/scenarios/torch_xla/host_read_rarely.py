"""The loss is read in every fourth step, before the sync: the first of these reads is a graph of its own."""
# expect: nothing
# settles: 4
# settling: host_read
# break: host_read

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for n in range(9):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        if n % 4 == 3:
            loss.item()
        torch_xla.sync()
        coldstep.wait(loss)
