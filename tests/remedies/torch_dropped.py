"""What torch.compile returns is dropped, in a class that holds the model."""

import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(3, 1)
        torch.compile(self.model, backend="eager")

    def step(self, x):
        return self.model(x).sum()


torch.manual_seed(0)
trainer = Trainer()
for i in range(4):
    print("loss", trainer.step(torch.ones(2, 3) * i).item())
