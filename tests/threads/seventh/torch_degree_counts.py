"""Trains a graph network that divides what reaches an atom by its number of neighbors."""

import torch
from torch import nn
from torch.nn import functional as F


class MeanAggregation(nn.Module):
    def forward(self, messages, index, atoms):
        degree = torch.bincount(index, minlength=atoms)
        summed = messages.new_zeros(atoms, messages.shape[1]).index_add(0, index, messages)
        return summed / degree.clamp(min=1).unsqueeze(1)


class Interaction(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Linear(width, width)
        self.aggregate = MeanAggregation()

    def forward(self, x, edge_index):
        sent = F.silu(self.message(x))[edge_index[0]]
        return x + self.update(self.aggregate(sent, edge_index[1], x.shape[0]))


class Potential(nn.Module):
    def __init__(self, species=5, width=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(species, width)
        self.layers = nn.ModuleList(Interaction(width) for _ in range(layers))
        self.energy = nn.Linear(width, 1)

    def forward(self, numbers, edge_index):
        x = self.embed(numbers)
        for layer in self.layers:
            x = layer(x, edge_index)
        return self.energy(x).sum()


torch.manual_seed(0)
model = Potential()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
numbers, edges = torch.randint(0, 5, (12,)), torch.randint(0, 12, (2, 40))
for _ in range(5):
    loss = (compiled(numbers, edges) - 1.5).square()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/isayevlab/aimnetcentral/pull/109"
# asked = "torch.compile is slower than eager on every workload: the model compiles to 42 graphs."
# answer = "The breaks are Tensor.item() and torch.bincount: write these so that Dynamo traces them."
# stack = "torch"
# mechanism = "graph_break:skipped_frame"
# argument = "torch.bincount"
# before = ""
# after = ""
# line = 10
# lines_accepted = [24, 37]
# compiles = [2, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Count by adding ones."
# cure_lines = [
#   {line = 10, code = "        degree = messages.new_zeros(atoms).index_add(0, index, torch.ones(index.shape))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
