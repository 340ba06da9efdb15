"""A layer's weight is frozen."""
# expect: requires_grad self.weight requires_grad -> "no requires_grad"
# before: torch 2.10: no guard looks at what a parameter of a library's layer requires

import torch

import coldstep

net = torch.nn.Linear(3, 3)
compiled = torch.compile(net, backend="eager")
for frozen in (False, False, True, False):
    net.weight.requires_grad_(not frozen)
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
