"""torch.compile(backend="openxla") of the model; the optimizer's step is lazy."""

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
compiled = torch.compile(model, backend="openxla", dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with coldstep.trace("xla_openxla.pftrace", live=False, device="off"):
    for rows in (5, 5, 5, 5, 6):
        with coldstep.step():
            optimizer.zero_grad()
            loss = compiled(torch.ones(rows, 4).to(device)).pow(2).sum()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            coldstep.wait(loss)
