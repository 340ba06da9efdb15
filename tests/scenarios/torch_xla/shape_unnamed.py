"""A function makes the batch on the device, and has ended when the graph is cut: no variable holds it."""
# expect: shape - f32[4,5] -> f32[4,3]
# settles: 2

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch_xla.sync()


def train(size):
    x = torch.rand(size, 4, device=device)
    optimizer.zero_grad()
    loss = model(x).pow(2).sum()
    loss.backward()
    optimizer.step()


for size in (5, 3, 3, 3, 3):
    with coldstep.step():
        train(size)
        torch_xla.sync()
