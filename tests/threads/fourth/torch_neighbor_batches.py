"""Trains a compiled graph network on sampled neighbourhoods, each of which has its own nodes and edges."""

import torch
from torch import nn


class GraphNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Linear(8, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x, edge_index):
        gathered = torch.zeros_like(x).index_add(0, edge_index[1], self.message(x)[edge_index[0]])
        return self.head((x + gathered).relu()).mean()


torch.manual_seed(0)
network = GraphNetwork()
model = torch.compile(network, backend="eager")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for nodes, edges in ((30, 80), (34, 95), (28, 71), (33, 88)):
    loss = model(torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges))).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/94640"
# asked = """\
# torch.compile fails for simple GNNs trained with neighbor sampling: the cache's limit is hit."""
# answer = """\
# The numbers of nodes and edges of edge_index and x differ in each batch, and each size is compiled for; \
# compile for dynamic shapes."""
# stack = "torch"
# mechanism = "shape"
# argument = "x"
# before = "[30, 8]"
# after = "[34, 8]"
# line = 20
# lines_accepted = [13, 14, 23]
# compiles = [2, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Compile with dynamic=True."
# cure_lines = [
#   {line = 20, code = "model = torch.compile(network, backend=\"eager\", dynamic=True)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
