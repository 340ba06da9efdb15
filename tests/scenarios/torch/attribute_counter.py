"""A module that counts its calls in an integer compiles at every call."""
# expect: module_attribute self.calls 0 -> 1
# expect: module_attribute self.calls 1 -> 2
# expect: module_attribute self.calls 2 -> 3
# expect: module_attribute self.calls 3 -> 4
# expect: module_attribute self.calls 4 -> 5
# finding: not_settled
# finding: repeat_offender
# before: torch 2.8: PyTorch makes the number a symbol at its second value

import torch

import coldstep


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


compiled = torch.compile(Net(), backend="eager")
for _ in range(6):
    with coldstep.step():
        coldstep.wait(compiled(torch.ones(3)))
