"""Layers that are compiled each for itself, for the number that each holds."""

import torch


class Layer(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) / self.number


torch.manual_seed(0)
layers = torch.nn.ModuleList(Layer(number) for number in range(2, 6))
for layer in layers:
    layer.compile(backend="eager")
with torch.no_grad():
    for _ in range(3):
        x = torch.ones(2, 4)
        for layer in layers:
            x = layer(x)
        print("loss", round(x.sum().item(), 5))
