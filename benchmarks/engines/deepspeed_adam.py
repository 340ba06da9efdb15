"""Two ranks that step DeepSpeed's CPU optimizer, whose C++ the first use builds."""

from __future__ import annotations

import torch
import torch.distributed as dist
from counts import show
from deepspeed.ops.adam import DeepSpeedCPUAdam

STEPS = 4

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(16, 16)
optimizer = DeepSpeedCPUAdam(model.parameters(), lr=1e-2)
losses = []
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = (model(torch.ones(4, 16)) ** 2).sum()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    losses.append(loss.item())
dist.destroy_process_group()
show(losses, STEPS, 0, "deepspeed", "torch")
