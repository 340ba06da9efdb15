"""One block, compiled by itself, is called as many: each module is compiled for the first time."""
# expect: nothing
# settles: 1

import torch

import coldstep


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    @torch.compile(backend="eager")
    def forward(self, x):
        return self.linear(x).relu()


net = torch.nn.Sequential(Block(), Block())
for _ in range(4):
    with coldstep.step():
        coldstep.wait(net(torch.ones(3)))
