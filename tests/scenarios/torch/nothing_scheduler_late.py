"""The scheduler is made after the first step: its own setting appears in the parameter group."""
# expect: nothing
# settles: 1
# break: explicit
# before: torch 2.8: what the scheduler puts into the optimizer's group compiles it again

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=torch.tensor(0.1))
update = torch.compile(optimizer.step, backend="eager")
scheduler = None
for _ in range(6):
    with coldstep.step():
        (weight**2).sum().backward()
        coldstep.wait(update())
        optimizer.zero_grad()
    scheduler = scheduler or torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    scheduler.step()
