"""The first batch of those that are made on the device is larger: a number gives the size, and is no cause itself."""
# expect: shape x f32[5,4] -> f32[3,4]
# settles: 2

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch_xla.sync()
for size in (5, 3, 3, 3, 3):
    with coldstep.step():
        x = torch.rand(size, 4, device=device)
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
