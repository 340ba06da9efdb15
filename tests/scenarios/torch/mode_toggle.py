"""Training, validation, training again: two variants, and going back compiles nothing."""
# expect: training_mode - on -> off
# settles: 1
# pattern: mode_toggle

import torch

import coldstep


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, training=self.training)


net = Net()
compiled = torch.compile(net, backend="eager")
for _ in range(3):
    net.train()
    for _ in range(2):
        with coldstep.step("train"):
            coldstep.wait(compiled(torch.ones(3)))
    net.eval()
    with coldstep.step("validate"):
        coldstep.wait(compiled(torch.ones(3)))
