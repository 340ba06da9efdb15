"""A loop over layers, each with weights of its own, is how a network is written."""
# expect: nothing

import torch

import coldstep

net = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(24)))
model = torch.compile(net, backend="eager")
for _ in range(4):
    with coldstep.step():
        model(torch.ones(2, 4)).sum().backward()
