"""A new optimizer for each phase of the training, its step compiled."""
# expect: identity optimizer "an object that was freed" -> SGD
# expect: identity optimizer "an object that was freed" -> SGD
# break: explicit

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))


def train(steps):
    optimizer = torch.optim.SGD([weight], lr=0.1)
    compiled = torch.compile(optimizer.step, backend="eager")
    for _ in range(steps):
        with coldstep.step():
            (weight**2).sum().backward()
            coldstep.wait(compiled())


train(3)
train(3)
