"""torch.compile(backend="openxla") of the model only: the loss is still lazy when the backward's graph is called, and
the optimizer's step is lazy altogether."""
# expect: graph - "12 operations" -> "9 operations"
# expect: optimizer_state optimizer.state {} -> "{'exp_avg', 'exp_avg_sq', 'step'}"
# settles: 2
# settling: graph
# settling: optimizer_state

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
compiled = torch.compile(model, backend="openxla")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for _ in range(5):
    with coldstep.step():
        optimizer.zero_grad()
        loss = compiled(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
