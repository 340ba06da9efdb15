"""Trains an encoder of tables whose attention looks for a faster kernel that may be installed."""

import torch
from torch import nn
from torch.nn import functional as F


def faster_attention():
    try:
        from table_attention_kernels import attention
    except ImportError:
        return None
    return attention


class RowAttention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        kernel = faster_attention()
        if kernel is None:
            kernel = F.scaled_dot_product_attention
        attended = kernel(query, key, value)
        return x + self.out(attended.transpose(1, 2).flatten(2))


torch.manual_seed(0)
network = nn.Sequential(RowAttention(), nn.LayerNorm(16), RowAttention(), nn.Linear(16, 1))
compiled = torch.compile(network, backend="aot_eager")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(6):
    rows = torch.randn(8, 12, 16)
    loss = F.mse_loss(compiled(rows).squeeze(-1), rows.mean(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/PriorLabs/TabPFN/pull/1166"
# asked = "Compiled attention falls into 43 fragments in the place of 2 graphs, and nobody sees it."
# answer = """\
# The probe for the faster attention imports its module inside the compiled region, and Dynamo cannot trace an \
# import: choose the backend before, outside."""
# stack = "torch"
# mechanism = "other: graph break at a function that Dynamo does not trace"
# argument = "table_attention_kernels"
# before = ""
# after = ""
# line = 25
# lines_accepted = [8, 10, 34]
# compiles = [3, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Ask once, when the module is loaded."
# cure_lines = [
#   {line = 25, code = "        kernel = FASTER"},
#   {line = 16, code = '''
# FASTER = faster_attention()
#
#
# class RowAttention(nn.Module):'''},
# ]
# cure_environment = {}
# losses = "close"
# ///
