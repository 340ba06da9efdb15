"""A compiled module is kept aside, by another name, and the program goes on to call the module itself."""

import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        self.fast = torch.compile(self.model, backend="eager")

    def train(self):
        for i in range(4):
            print("loss", self.model(torch.ones(2, 3) * i).sum().item())


torch.manual_seed(0)
Trainer().train()
