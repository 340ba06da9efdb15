"""A learning rate in a tensor, and a scheduler."""
# expect: nothing
# settles: 1
# break: unsupported_call
# break: explicit

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.Adam([weight], lr=torch.tensor(0.1))
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
compiled = torch.compile(optimizer.step, backend="eager")
for _ in range(4):
    with coldstep.step():
        (weight**2).sum().backward()
        coldstep.wait(compiled())
        optimizer.zero_grad()
    scheduler.step()
