"""A compiled model counts its steps in a number that a module within it holds."""

import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.steps


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = Gain()
        self.layers = nn.Sequential(nn.Linear(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.gain(x))


torch.manual_seed(0)
model = Model()
compiled = torch.compile(model, backend="eager")
for _ in range(4):
    print("loss", repr(compiled(torch.ones(2, 3)).sum().item()))
    model.gain.steps += 1
