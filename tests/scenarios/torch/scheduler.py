"""A learning rate as a float that a scheduler changes."""
# expect: python_scalar optimizer.param_groups[0]['lr'] 0.1 -> 0.05
# settles: 2
# settling: python_scalar
# break: unsupported_call
# break: explicit
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.Adam([weight], lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
compiled = torch.compile(optimizer.step, backend="eager")
for _ in range(5):
    with coldstep.step():
        (weight**2).sum().backward()
        coldstep.wait(compiled())
        optimizer.zero_grad()
    scheduler.step()
