"""A learning rate warms up, and is 1 in one of the later steps: that one graph holds it as a constant."""
# expect: baked_constant optimizer.param_groups[0]['lr'] 0.25 -> 1.0
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for rate in (0.25, 0.5, 0.6, 0.75, 1.0, 0.9):
    optimizer.param_groups[0]["lr"] = rate
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
