"""Prints the median of 300 steady steps in microseconds; $WATCHED: with marks, inside of a trace."""

import contextlib
import os
import statistics
import time

import torch

import coldstep

device = os.environ["DEVICE"]
watched = bool(os.environ.get("WATCHED"))
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).to(device)
optimizer = torch.optim.AdamW(model.parameters())
compiled = torch.compile(model)
batch = torch.ones(256, 1024, device=device)
took = []
with coldstep.trace("run.pftrace") if watched else contextlib.nullcontext():
    for _ in range(320):
        began = time.perf_counter()
        with coldstep.step() if watched else contextlib.nullcontext():
            loss = compiled(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
print(f"{statistics.median(took[20:]) * 1e6:.0f}")
