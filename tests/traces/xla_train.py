"""The optimizer's state is created in the first step, a graph is cut between two steps, and two loops share a sync."""

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def run(rows):
    loss = model(torch.ones(rows, 4).to(device)).pow(2).sum()
    if torch.is_grad_enabled():
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch_xla.sync()
    return coldstep.wait(loss)


with coldstep.trace("xla_train.pftrace", live=False):
    for n, rows in enumerate((5, 5, 5, 5, 5, 6)):
        with coldstep.step():
            loss = run(rows)
        if n == 3:
            (loss * 2).item()
        if n % 3 == 2:
            with torch.no_grad(), coldstep.step("validation"):
                run(rows + n)
