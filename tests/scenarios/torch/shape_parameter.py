"""A weight in a module grows."""
# expect: shape self.weight f32[4] -> f32[5]

import torch

import coldstep


class Net(torch.nn.Module):
    def forward(self, x):
        return x + self.weight.sum()


net = Net()
compiled = torch.compile(net, backend="eager")
for size in (4, 4, 5, 5):
    net.weight = torch.nn.Parameter(torch.ones(size))
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
