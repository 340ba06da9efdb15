"""The model is warmed up before it is put into evaluation mode.

Rebuilt from JIA-Lab-research/LongLoRA#127 and pytorch/pytorch#110803.
"""
# late: training_mode -

import torch

import coldstep


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.dropout = torch.nn.Dropout()

    def forward(self, x):
        return self.dropout(self.linear(x))


model = Model()
model.compile(backend="eager")
x = torch.ones(2, 4)
with torch.no_grad():
    model(x)
coldstep.ready()
model.eval()
with coldstep.step("request"), torch.no_grad():
    model(x)
