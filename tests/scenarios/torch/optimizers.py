"""Two optimizers, each step compiled: the guards remember the first."""
# expect: identity optimizer Adam -> "another Adam"
# expect: identity optimizer Adam -> "another Adam"
# break: explicit

import torch

import coldstep

nets = [torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)]
optimizers = [torch.optim.Adam(net.parameters()) for net in nets]
steps = [torch.compile(optimizer.step, backend="eager") for optimizer in optimizers]
for _ in range(4):
    with coldstep.step():
        for net, step in zip(nets, steps, strict=True):
            net(torch.ones(3)).sum().backward()
            coldstep.wait(step())
