"""Nothing syncs, only the loss is read: each read computes all that has been pending since the beginning."""
# expect: host_read - "8 operations" -> "27 operations"
# expect: host_read - "27 operations" -> "46 operations"
# expect: host_read - "46 operations" -> "65 operations"
# expect: host_read - "65 operations" -> "84 operations"
# expect: host_read - "84 operations" -> "103 operations"
# finding: not_settled

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for _ in range(6):
    with coldstep.step():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        loss.item()
