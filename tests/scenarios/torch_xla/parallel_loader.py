"""The parallel loader syncs between the steps: what it compiles is of the step before."""
# expect: optimizer_state optimizer.state {} -> "{'momentum_buffer'}"
# settles: 2
# settling: optimizer_state

import torch
import torch_xla
from torch_xla.distributed.parallel_loader import MpDeviceLoader

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch_xla.sync()
for x in MpDeviceLoader([torch.ones(5, 4) for _ in range(6)], device):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
