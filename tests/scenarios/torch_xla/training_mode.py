"""The model is evaluated with the same line that trains it, with dropout and without."""
# expect: training_mode - "model on" -> "model off"
# settles: 2

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5)).to(device)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for training in (True, False, False, False, False):
    with coldstep.step():
        model.train(training)
        loss = model(x).pow(2).sum()
        torch_xla.sync()
        coldstep.wait(loss)
