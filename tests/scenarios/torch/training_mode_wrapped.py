"""A ready-made module: eval before train."""
# expect: training_mode - off -> on

import torch

import coldstep

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())
compiled = torch.compile(net, backend="eager")
for training in (False, False, True, False):
    net.train(training)
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
