"""Encodes audio through layers that clamp their states where half precision overflowed."""

import torch
from torch import nn


def clamp_overflow(states):
    if states.isinf().any() or states.isnan().any():
        limit = torch.finfo(states.dtype).max - 1000
        states = torch.clamp(states, min=-limit, max=limit)
    return states


class EncoderLayer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, states):
        states = states + self.down(nn.functional.gelu(self.up(self.norm(states))))
        return clamp_overflow(states)


torch.manual_seed(0)
encoder = nn.Sequential(EncoderLayer(), EncoderLayer(), EncoderLayer()).eval()
compiled = torch.compile(encoder, backend="aot_eager")
with torch.no_grad():
    for _ in range(5):
        print("value", repr(compiled(torch.randn(4, 20, 16)).abs().mean().item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/pull/180406"
# asked = "vLLM's cast_overflow_tensors breaks the graph, and torch.cond in its place is hard to debug."
# answer = """\
# Branching on isinf().any() or isnan().any() depends on data: clamp without a branch (clamp, nan_to_num, where)."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "states.isinf().any()"
# before = ""
# after = ""
# line = 8
# lines_accepted = [9, 10, 23]
# compiles = [2, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Clamp always."
# cure_lines = [
#   {line = 8, code = "    if True:"},
# ]
# cure_environment = {}
# losses = "close"
# ///
