"""SGD with momentum, its step compiled: the momentum is created in the first step."""
# expect: optimizer_state optimizer.state {} -> "{'momentum_buffer'}"
# settles: 2
# settling: optimizer_state
# break: explicit

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
compiled = torch.compile(optimizer.step, backend="eager")
for _ in range(5):
    with coldstep.step():
        (weight**2).sum().backward()
        coldstep.wait(compiled())
        optimizer.zero_grad()
