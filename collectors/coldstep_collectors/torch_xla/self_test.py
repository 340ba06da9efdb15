"""Compiles by torch_xla: for the first time, for another shape, and where a value is read in the middle of a step."""
# mypy: ignore-errors

import torch
import torch_xla

import coldstep

for size in (8, 8, 5):
    with coldstep.step():
        x = torch.ones(size).to("xla")
        loss = (x * 2).sum()
        torch_xla.sync()
        coldstep.wait(loss)
with coldstep.step():
    x = torch.ones(5).to("xla")
    if (x * 3).sum().item() > 0:
        loss = x.sum()
    torch_xla.sync()
    coldstep.wait(loss)
