"""A parameter group is added later."""
# expect: container optimizer.param_groups "list of 1" -> "list of 2"
# break: explicit

import torch

import coldstep

first, second = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
optimizer = torch.optim.Adam([first], lr=0.1)
compiled = torch.compile(optimizer.step, backend="eager")
for n in range(5):
    if n == 2:
        optimizer.add_param_group({"params": [second]})
    with coldstep.step():
        (first * second).sum().backward()
        coldstep.wait(compiled())
