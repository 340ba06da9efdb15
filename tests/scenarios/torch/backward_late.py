"""The first step only looks at the loss: the backward is compiled by the second."""
# expect: nothing
# settles: 1
# settling: -

import torch

import coldstep

net = torch.nn.Linear(3, 1)
compiled = torch.compile(net, backend="aot_eager")
for n in range(5):
    with coldstep.step():
        loss = compiled(torch.ones(5, 3)).sum()
        if n:
            loss.backward()
        coldstep.wait(loss)
