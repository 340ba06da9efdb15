"""Ten blocks of one class that each know their number: ten variants of one code, though each block compiles once."""
# expect: nothing
# settles: 1
# finding: repeat_offender
# finding: cache_limit
# finding: silent_eager

import torch

import coldstep


class Block(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = f"block {number}"
        self.weight = torch.nn.Parameter(torch.ones(3))

    @torch.compile(backend="eager")
    def forward(self, x):
        return x * self.weight if self.number else x


net = torch.nn.Sequential(*(Block(n) for n in range(10)))
for _ in range(4):
    with coldstep.step():
        coldstep.wait(net(torch.ones(3)))
