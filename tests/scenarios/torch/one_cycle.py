"""OneCycleLR changes AdamW's betas, which are Python numbers, at every step."""
# expect: python_scalar optimizer.param_groups[0]['betas'][0] 0.95 -> 0.9404508497187474
# settles: 2
# break: unsupported_call
# break: explicit
# settling: python_scalar
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.AdamW([weight], lr=torch.tensor(0.1))
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=torch.tensor(0.1), total_steps=20)
update = torch.compile(optimizer.step, backend="eager")
for _ in range(7):
    with coldstep.step():
        (weight**2).sum().backward()
        coldstep.wait(update())
        optimizer.zero_grad()
    scheduler.step()
