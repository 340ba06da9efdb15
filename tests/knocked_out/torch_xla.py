"""Compiles for another shape, for a read in the middle of a step, and in torch_xla.compile."""

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(0.5)
torch_xla.sync()
for size in (5, 5, 5, 3):
    with coldstep.step():
        loss = model(torch.ones(size, 4).to(device)).pow(2).sum()
        torch_xla.sync()
        coldstep.wait(loss)
    print(loss.item())


@torch_xla.compile
def forward(x):
    return model(x).sum()


with coldstep.step("compiled"):
    result = forward(torch.ones(5, 4).to(device))
print(result.item())
