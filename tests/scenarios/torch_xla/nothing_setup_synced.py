"""The model and the batch are made on the device, and synced before the first step."""
# expect: nothing
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3, device=device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 4, device=device)
torch_xla.sync()
for _ in range(5):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
