"""Compiles a small encoder for each field of a table, and trains them together."""

import torch
from torch import nn
from torch.nn import functional as F

FIELDS = ("age", "income", "children", "distance", "rooms", "tenure", "visits", "balance", "claims", "score")


class FieldEncoder(nn.Module):
    def __init__(self, key, width=8):
        super().__init__()
        self.key = key
        self.project = nn.Linear(1, width)

    def forward(self, row):
        return F.relu(self.project(row[self.key].unsqueeze(-1)))


class Regressor(nn.Module):
    def __init__(self, fields):
        super().__init__()
        self.encoders = nn.ModuleList(FieldEncoder(key) for key in fields)
        self.head = nn.Linear(8, 1)

    def compile_encoders(self):
        for encoder in self.encoders:
            encoder.compile()

    def forward(self, row):
        return self.head(sum(encoder(row) for encoder in self.encoders)).squeeze(-1)


torch.manual_seed(0)
model = Regressor(FIELDS)
model.compile_encoders()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
row = {key: torch.randn(16) for key in FIELDS}
target = sum(row.values())
for _ in range(4):
    loss = F.mse_loss(model(row), target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/pull/171598"
# asked = "Compiling many modules of one class whose graphs guard on an attribute hits the recompile limit."
# answer = """\
# The cache is of the code object: the entries of all instances count against one recompile_limit, for the \
# guard is on self.key, not on self."""
# stack = "torch"
# mechanism = "silent_eager"
# argument = "forward"
# before = ""
# after = ""
# line = 28
# lines_accepted = [17, 31, 41]
# compiles = [8, 10]
# counted = """\
# graphs that Dynamo compiled for ten fields (as it is, the limit of 8 is reached and two fields run eagerly)"""
# cure = "Raise torch._dynamo.config.recompile_limit."
# cure_lines = [
#   {line = 36, code = """
# torch._dynamo.config.recompile_limit = 16
# model.compile_encoders()"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
