"""AdamW whose state is made and synced before the first step."""
# expect: nothing
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for p in model.parameters():
    zeros = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    optimizer.state[p] = {"step": torch.tensor(0.0), **zeros}
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
