"""A method of the model calls the model itself, and not what torch.compile returned."""
# expect: nothing
# finding: uncompiled

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.head(x)

    def generate(self, x, steps):
        for _ in range(steps):
            x = self(x)
        return x


model = Model()
model = torch.compile(model, backend="eager")
model.generate(torch.ones(1, 3), 4)
