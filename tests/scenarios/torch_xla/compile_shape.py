"""A function given to torch_xla.compile, called with batches of two sizes."""
# expect: shape x f32[5,4] -> f32[3,4]
# settles: 1

import torch
import torch_xla

import coldstep

device = torch_xla.device()
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(x):
    optimizer.zero_grad()
    loss = model(x).pow(2).sum()
    loss.backward()
    optimizer.step()
    return loss


train_step = torch_xla.compile(train)
for size in (5, 5, 5, 5, 3):
    x = torch.ones(size, 4).to(device)
    with coldstep.step():
        coldstep.wait(train_step(x))
