"""One layer alone is put into eval mode."""
# expect: training_mode - on -> off

import torch

import coldstep

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())
compiled = torch.compile(net, backend="eager")
for training in (True, True, False, True):
    net[1].train(training)
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
