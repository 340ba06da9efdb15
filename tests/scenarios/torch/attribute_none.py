"""A module creates a tensor at its first call."""
# expect: type self.cache None -> f32[3]
# settles: 2
# pattern: lazily_created

import torch

import coldstep


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = x * 2
        return x + self.cache


compiled = torch.compile(Net(), backend="eager")
for _ in range(5):
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
