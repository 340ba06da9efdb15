"""Trains with torch.compile, in the mode $MODE, on the device $DEVICE."""

import os

import torch

import coldstep

device = os.environ["DEVICE"]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
compiled = torch.compile(model, mode=os.environ["MODE"])

with coldstep.trace("run.pftrace"):
    for _ in range(8):
        with coldstep.step():
            loss = compiled(torch.ones(64, 256, device=device)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            coldstep.wait(loss)
