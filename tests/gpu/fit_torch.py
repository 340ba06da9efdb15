"""Prints what would_fit says that a step holds, and what PyTorch's allocator then held, both in bytes."""

import os

import torch

import coldstep

device = os.environ["DEVICE"]
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).to(device)
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.ones(2048, 1024, device=device)


def train_step(batch):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


expected = coldstep.would_fit(train_step, batch).peak_bytes
with coldstep.trace("run.pftrace"):
    for _ in range(3):
        with coldstep.step():
            train_step(batch)
print(expected, torch.cuda.max_memory_allocated() if device == "cuda" else 0)
