"""torch.compile(backend="openxla") of model and loss: nothing is pending when the backward's graph is called."""
# expect: nothing
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()


@torch.compile(backend="openxla")
def loss_of(x):
    return model(x).pow(2).sum()


for _ in range(5):
    with coldstep.step():
        optimizer.zero_grad()
        loss = loss_of(x)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
