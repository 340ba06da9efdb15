"""A number in a module's attribute is compiled in."""
# expect: module_attribute self.scale 2.0 -> 3.0

import torch

import coldstep


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        return x * self.scale


net = Net()
compiled = torch.compile(net, backend="eager")
for scale in (2.0, 2.0, 3.0, 3.0):
    net.scale = scale
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
