"""Something is added to the loss in the second step, and from then on."""
# expect: graph - "25 operations" -> "42 operations"
# settles: 2

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for n in range(5):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        if n:
            loss = loss + model.weight.abs().mean().sqrt()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
