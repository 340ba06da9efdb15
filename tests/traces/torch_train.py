"""A graph break, recompiles before and after a reset, and a backward that comes in a later step."""

import torch

import coldstep

torch.set_num_threads(1)
net = torch.nn.Linear(4, 1)


@torch.compile
def forward(x, scale):
    y = net(x) * scale
    if y.sum() > 1e6:
        y = y + 1
    return y.relu()


@torch.compile(dynamic=False, backend="aot_eager")
def tail(x):
    return x.cos()


with coldstep.trace("torch_train.pftrace", live=False):
    for n, scale in enumerate((1.0, 1.0, 2.0, 2.0, 2.0)):
        with coldstep.step():
            loss = forward(torch.ones(3, 4), scale).sum()
            if n:
                loss.backward()
            coldstep.wait(loss)
    for n, rows in enumerate((4, 5, 4, 5)):
        if n == 2:
            torch._dynamo.reset()
        with coldstep.step("tail"):
            coldstep.wait(tail(torch.ones(rows)))
