"""Two instances of one class are two functions."""
# expect: nothing
# settles: 1

import torch

import coldstep


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(3, width)

    def forward(self, x):
        return self.linear(x)


nets = [torch.compile(Net(width), backend="eager") for width in (2, 3)]
for _ in range(4):
    with coldstep.step():
        coldstep.wait([net(torch.ones(3)) for net in nets])
