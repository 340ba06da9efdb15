"""AdamW: both moments of each parameter are made in the first step, and are inputs of the second."""
# expect: optimizer_state optimizer.state {} -> "{'exp_avg', 'exp_avg_sq', 'step'}"
# settles: 2
# settling: optimizer_state

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for _ in range(5):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
