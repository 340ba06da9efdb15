"""A layer is replaced by one of another kind."""
# expect: identity self.layer Linear -> Identity

import torch

import coldstep


class Net(torch.nn.Module):
    def forward(self, x):
        return self.layer(x) * 2


net, linear = Net(), torch.nn.Linear(3, 3)
compiled = torch.compile(net, backend="eager")
for layer in (linear, linear, torch.nn.Identity(), linear):
    net.layer = layer
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
