"""The first batch is smaller."""
# expect: shape batch['x'] f32[3,4] -> f32[5,4]
# settles: 2

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch_xla.sync()
for size in (3, 5, 5, 5, 5):
    with coldstep.step():
        batch = {"x": torch.ones(size, 4).to(device)}
        optimizer.zero_grad()
        loss = model(batch["x"]).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
