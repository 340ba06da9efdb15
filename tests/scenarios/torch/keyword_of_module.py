"""A keyword that only some calls of a ready-made module pass."""
# expect: keyword need_weights - -> False

import torch

import coldstep

net = torch.nn.MultiheadAttention(4, 2)
compiled = torch.compile(net, backend="eager")
x = torch.ones(2, 1, 4)
for options in ({}, {}, {"need_weights": False}, {}):
    with coldstep.step():
        coldstep.wait(compiled(x, x, x, **options)[0])
