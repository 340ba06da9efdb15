"""Runs a transformer whose layers are compiled one by one, under autocast."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/128134"
# asked = "Under AMP, layers compiled one by one are compiled again: dtype mismatch, expected Half, actual Float."
# answer = """\
# A maintainer: each dtype needs its own kernel, so this cannot be avoided in the compiler; keep AMP from handing \
# the layers different dtypes."""
# stack = "torch"
# mechanism = "dtype"
# argument = "x"
# before = "torch.float32"
# after = "torch.bfloat16"
# line = 46
# lines_accepted = [40, 42, 44, 46]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Cast the input of the first layer to the dtype that the layers return."
# cure_lines = [{line = 44, code = "        x = torch.randn(4, 8).bfloat16()"}]
# cure_environment = {}
# losses = "other"
# ///

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(torch.tanh(x))


torch.manual_seed(0)
layers = [Layer() for _ in range(4)]
for layer in layers:
    layer.compile(backend="eager")

with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(3):
        x = torch.randn(4, 8)
        for layer in layers:
            x = layer(x)
        print("value", repr(x.float().sum().item()))
