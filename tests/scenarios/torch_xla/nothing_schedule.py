"""A learning rate that changes in every step, and is never 0 or 1, is data of the device."""
# expect: nothing
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for rate in (0.25, 0.5, 0.6, 0.7, 0.8, 0.9):
    optimizer.param_groups[0]["lr"] = rate
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
