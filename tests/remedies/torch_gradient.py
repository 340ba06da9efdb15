"""A compiled norm of gradients, which no backward has made yet at the first call."""

import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 4, bias=False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


@torch.compile(backend="eager")
def norm():
    gradient = net.weight.grad
    return gradient.norm() if gradient is not None else torch.zeros(())


for _ in range(5):
    before = norm()
    loss = net(torch.ones(2, 4)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", round(loss.item(), 4), round(before.item(), 4))
