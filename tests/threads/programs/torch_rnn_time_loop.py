"""Trains a hand-written recurrent network on long sequences, compiled as a whole."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/97155"
# asked = "A custom recurrent network takes very long to compile when the sequence is long."
# answer = """\
# A maintainer: Dynamo unrolls the Python loop over time into one huge graph; break the graph in the loop or \
# compile only the cell."""
# stack = "torch"
# mechanism = "unrolled"
# argument = "for step in range(sequence.shape[1]):"
# before = ""
# after = ""
# line = 45
# lines_accepted = [45, 46, 52, 56]
# compiles = [452, 8]
# counted = "operations captured into graphs by Dynamo (counters['stats']['calls_captured'])"
# cure = "Compile the cell, not the network with the loop over time."
# cure_lines = [{line = 52, code = "model.cell.compile(backend=\"eager\")"}]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inputs = nn.Linear(width, width)
        self.state = nn.Linear(width, width, bias=False)

    def forward(self, x, state):
        return torch.tanh(self.inputs(x) + self.state(state))


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = Cell(width)

    def forward(self, sequence):
        state = torch.zeros_like(sequence[:, 0])
        for step in range(sequence.shape[1]):
            state = self.cell(sequence[:, step], state)
        return state


torch.manual_seed(0)
model = Recurrent(8)
model.compile(backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    sequence = torch.randn(4, 90, 8)
    loss = (model(sequence) - sequence.mean(dim=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
