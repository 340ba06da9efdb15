"""Trains a compiled classifier on a set whose size no whole number of batches makes up."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images = torch.randn(50, 12)
labels = (images.sum(1) > 0).long()
loader = DataLoader(TensorDataset(images, labels), batch_size=16)
network = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
model = torch.compile(network, backend="eager")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

for _ in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/Lightning-AI/litgpt/pull/794"
# asked = "Why drop_last=True in the training loader of a compiled model?"
# answer = """\
# It keeps the batch size constant in every iteration; else the shape changes with the last batch, torch \
# recompiles the forward pass, and the generated kernels are less specialized."""
# stack = "torch"
# mechanism = "shape"
# argument = "x"
# before = "[16, 12]"
# after = "[2, 12]"
# line = 10
# lines_accepted = [12, 16, 17]
# compiles = [2, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Drop the last batch."
# cure_lines = [
#   {line = 10, code = "loader = DataLoader(TensorDataset(images, labels), batch_size=16, drop_last=True)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
