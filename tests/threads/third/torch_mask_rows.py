"""Attends from queries to hits under a predicted mask; a query whose mask is empty may look everywhere."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(5, 8))
        self.mix = nn.Linear(8, 8)

    def forward(self, hits):
        scores = self.queries @ hits.T
        mask = (scores.sigmoid() > 0.85).detach()
        mask[torch.where(mask.sum(-1) == 0)] = True
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        return self.mix(weights @ hits)


torch.manual_seed(0)
decoder = Decoder()
model = torch.compile(decoder, backend="eager")
optimizer = torch.optim.SGD(decoder.parameters(), lr=0.05)

for _ in range(6):
    loss = model(torch.randn(12, 8) * 0.6).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/samvanstroud/hepattn/issues/57"
# asked = """\
# Recompilations in mask attention until the limit is reached, behind the line that unmasks empty rows."""
# answer = """\
# Indexing with torch.where breaks the graph, and what follows is compiled for the number of rows that were \
# found; the line became a torch.where of three arguments on the mask."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "torch.where(mask.sum(-1) == 0)"
# before = ""
# after = ""
# line = 16
# lines_accepted = [13, 17, 27]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Choose with torch.where between True and the mask."
# cure_lines = [
#   {line = 16, code = "        mask = torch.where((mask.sum(-1) == 0).unsqueeze(-1), True, mask)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
