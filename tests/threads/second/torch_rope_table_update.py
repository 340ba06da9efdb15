"""Decodes with a compiled attention layer that takes its rotary cosines and sines from a growing table."""

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.table = None

    def update(self, positions):
        length = int(positions.max()) + 1
        if self.table is None or self.table.shape[0] < length:
            angles = torch.arange(64)[:, None] / 100.0 ** (torch.arange(self.width // 2) / self.width)
            self.table = torch.stack([angles.cos(), angles.sin()], dim=1)

    def forward(self, x, positions):
        cosine, sine = self.table[positions].unbind(dim=1)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rotary = Rotary(8)
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)

    def forward(self, x, positions):
        query, key = self.query(x), self.key(x)
        self.rotary.update(positions)
        query, key = self.rotary(query, positions), self.rotary(key, positions)
        return torch.softmax(query @ key.T, dim=-1) @ x


torch.manual_seed(0)
attention = Attention()
model = torch.compile(attention, backend="eager")
with torch.no_grad():
    for start in [0, 4, 8, 12]:
        positions = torch.arange(start, start + 4)
        print("value", repr(model(torch.randn(4, 8), positions).sum().item()))
# /// thread
# address = "https://github.com/foundation-model-stack/foundation-model-stack/pull/64"
# asked = "A compiled Llama has a cascade of graph breaks in its rotary embeddings."
# answer = """\
# The cached cosines and sines are updated as part of the forward call; separate the update from forward() and call it \
# before the model."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "positions.max()"
# before = ""
# after = ""
# line = 14
# lines_accepted = [13, 15, 34, 41, 45]
# compiles = [2, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Call the table's update in the loop, before the compiled model, and not in forward."
# cure_lines = [
#   {line = 34, code = ""},
#   {line = 44, code = """
#         positions = torch.arange(start, start + 4)
#         attention.rotary.update(positions)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
