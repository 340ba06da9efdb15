"""Gradients that are set to zero and not to None: None in the first step, zeros added to in the second."""
# expect: gradient_state model.weight.grad None -> f32[3,4]
# settles: 2
# settling: gradient_state

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
for _ in range(5):
    with coldstep.step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        coldstep.wait(loss)
