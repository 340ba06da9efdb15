"""A training step that settles at once."""
# expect: nothing
# settles: 1

import torch

import coldstep

net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
compiled = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for n in range(4):
    with coldstep.step():
        loss = compiled(torch.ones(5, 3) * n).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        coldstep.wait(loss)
