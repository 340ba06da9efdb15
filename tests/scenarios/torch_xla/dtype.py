"""A batch comes in another precision."""
# expect: dtype x f32[5,4] -> bf16[5,4]
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch_xla.sync()
for dtype in 4 * [torch.float32] + [torch.bfloat16]:
    with coldstep.step():
        x = torch.ones(5, 4, dtype=dtype).to(device)
        optimizer.zero_grad()
        loss = model(x.float()).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
