"""Two numbers are equal in the first step, and are one input of its graph; a counter that changes has no part in it."""
# expect: aliasing - "1 input for its numbers" -> "2 inputs for its numbers"
# settles: 2

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
x = torch.ones(5, 4).to(device)
torch_xla.sync()
scale, shift = 2.5, 2.5
for n in range(5):
    with coldstep.step(), torch.no_grad():
        y = model(x) * scale + shift
        torch_xla.sync()
        coldstep.wait(y)
    shift = 3.5 + 0.1 * n
