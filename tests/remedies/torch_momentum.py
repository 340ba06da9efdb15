"""A compiled optimizer that has no momentum yet in its first step."""

import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


@torch.compile(backend="eager")
def update():
    optimizer.step()


for _ in range(5):
    optimizer.zero_grad()
    loss = net(torch.ones(2, 3)).pow(2).sum()
    loss.backward()
    update()
    print("loss", round(loss.item(), 4))
