"""A number in the optimizer's settings is changed by hand."""
# expect: python_scalar optimizer.param_groups[0]['weight_decay'] 0 -> 0.1
# break: explicit

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.Adam([weight], lr=torch.tensor(0.1))
compiled = torch.compile(optimizer.step, backend="eager")
for decay in (0, 0, 0.1, 0.1):
    optimizer.param_groups[0]["weight_decay"] = decay
    with coldstep.step():
        (weight**2).sum().backward()
        coldstep.wait(compiled())
