"""A list in a module's attribute."""
# expect: container self.weights "list of 2" -> "list of 3"

import torch

import coldstep


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = [1, 2]

    def forward(self, x):
        return x * len(self.weights)


net = Net()
compiled = torch.compile(net, backend="eager")
for n in (2, 2, 3, 3):
    net.weights = list(range(n))
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
