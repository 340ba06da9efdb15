"""The same, but at first only the class has the attribute."""
# expect: module_attribute self.cache "not set" -> f32[3]
# settles: 2
# before: torch 2.9: the guard looks at the None of the class

import torch

import coldstep


class Net(torch.nn.Module):
    cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = x * 2
        return x + self.cache


compiled = torch.compile(Net(), backend="eager")
for _ in range(5):
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
