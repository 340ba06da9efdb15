"""No step is marked: torch_xla's syncs are the steps."""

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with coldstep.trace("xla_inferred.pftrace", live=False, device="off"):
    for rows in (5, 5, 5, 5, 6, 5):
        optimizer.zero_grad()
        model(torch.ones(rows, 4).to(device)).pow(2).sum().backward()
        optimizer.step()
        torch_xla.sync()
