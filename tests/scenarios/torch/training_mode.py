"""eval() once, and back: two variants, no growth."""
# expect: training_mode - on -> off
# settles: 1

import torch

import coldstep


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, training=self.training)


net = Net()
compiled = torch.compile(net, backend="eager")
for training in (True, True, True, True, False, True, False):
    net.train(training)
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
