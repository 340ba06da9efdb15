"""A setting of a layer inside a container: the path is the one the user writes."""
# expect: module_attribute self[1].p 0.5 -> 0.25

import torch

import coldstep

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
compiled = torch.compile(net, backend="eager")
for p in (0.5, 0.5, 0.25, 0.25):
    net[1].p = p
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
