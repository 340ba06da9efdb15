"""A compiled optimizer's learning rate, a number that a scheduler writes anew in each step."""

import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (n + 1))
x = torch.randn(8, 4)


@torch.compile(backend="eager")
def update():
    optimizer.step()


for _ in range(5):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    update()
    scheduler.step()
    print("loss", round(loss.item(), 4))
