"""Trains reversible layers that seed the dropout of attention anew, so that the backward pass can repeat it."""

import sys

import torch
from torch import nn
from torch.nn import functional as F


class ReversibleLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.Linear(width, width)
        self.feed_forward = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)
        self.attention_seed = None

    def _init_attention_seed(self):
        self.attention_seed = int(torch.initial_seed() % sys.maxsize)
        torch.manual_seed(self.attention_seed)

    def forward(self, previous, hidden):
        if self.training:
            self._init_attention_seed()
        attended = previous + self.dropout(self.attention(hidden))
        return attended, hidden + F.relu(self.feed_forward(attended))


class Reformer(nn.Module):
    def __init__(self, width=16, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(ReversibleLayer(width) for _ in range(layers))
        self.head = nn.Linear(2 * width, 1)

    def forward(self, x):
        previous = hidden = x
        for layer in self.layers:
            previous, hidden = layer(previous, hidden)
        return self.head(torch.cat((previous, hidden), dim=-1)).mean()


torch.manual_seed(0)
model = Reformer()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 16)
for _ in range(5):
    loss = (compiled(x) - 1.0).square()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/101154"
# asked = "Reformer breaks the graph in each of its layers."
# answer = """\
# Seeding is no operation of a graph: Dynamo breaks the graph on manual_seed, so that it takes place \
# (pytorch/pytorch#107187)."""
# stack = "torch"
# mechanism = "other: graph break at a function that Dynamo does not trace"
# argument = "torch.manual_seed"
# before = ""
# after = ""
# line = 20
# lines_accepted = [24, 19, 38]
# compiles = [2, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Do not seed within the layer."
# cure_lines = [
#   {line = 24, code = "            pass"},
# ]
# cure_environment = {}
# losses = "other"
# ///
