"""ReduceLROnPlateau writes a Python number over the learning rate, which was a tensor."""
# expect: nothing
# before: torch 2.10: ReduceLROnPlateau puts a number in the place of the tensor, which compiles again
# settles: 1
# break: explicit

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=torch.tensor(0.1))
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
update = torch.compile(optimizer.step, backend="eager")
for _ in range(6):
    with coldstep.step():
        (weight**2).sum().backward()
        coldstep.wait(update())
        optimizer.zero_grad()
    scheduler.step(1.0)
