"""A ready-made layer in eval mode, with another batch."""
# expect: shape input f32[8,3] -> f32[5,3]

import torch

import coldstep

net = torch.nn.Linear(3, 3)
compiled = torch.compile(net, backend="eager")
for size, training in ((8, True), (8, True), (5, False), (8, True)):
    net.train(training)
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(size, 3)))
