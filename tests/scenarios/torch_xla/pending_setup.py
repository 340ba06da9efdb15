"""The batch is made on the device, and nothing synced: the first step computes it, too."""
# expect: pending_setup x "to be computed" -> f32[5,4]
# settles: 2
# settling: pending_setup

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 4, device=device)
for _ in range(5):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
