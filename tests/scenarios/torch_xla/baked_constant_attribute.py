"""A number that says how an operation works is compiled in, whatever it is."""
# expect: baked_constant shift 2 -> 3
# settles: 2

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for shift in (2, 3, 3, 3, 3):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).roll(shift, 0).pow(2)[0].sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
