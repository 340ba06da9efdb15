"""A factor that is 1 in the first step: the graph holds it as a constant."""
# expect: baked_constant scale 1.0 -> 1.1
# settles: 2
# settling: baked_constant

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for n in range(5):
    scale = 1.0 + 0.1 * n
    with coldstep.step():
        optimizer.zero_grad()
        loss = scale * model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
