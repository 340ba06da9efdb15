"""The sync is in a function of its own, which has other names for what the loop has made and not synced."""
# expect: pending_setup batch "to be computed" -> f32[5,4]
# settles: 2
# settling: pending_setup

import torch
import torch_xla

import coldstep


def train_step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).pow(2).sum()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    return loss


def main():
    device = torch_xla.device()
    net = torch.nn.Linear(4, 3).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    batch = torch.randn(5, 4, device=device)
    for _ in range(5):
        with coldstep.step():
            coldstep.wait(train_step(net, sgd, batch))


main()
