"""Trains a small attention layer that builds its inner function at the first call."""

# /// thread
# address = "https://github.com/pytorch/torchtitan/pull/2823"
# asked = "A compiled RL trainer recompiles its blocks ten times and more."
# answer = """\
# Among the causes that the fix names: an attribute is None until the first call sets it, and Dynamo sees the \
# change from None to a function; build it when the model is set up."""
# stack = "torch"
# mechanism = "type"
# argument = "self._inner"
# before = "None"
# after = "a function"
# line = 46
# lines_accepted = [41, 45, 46, 52, 56]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Build the inner function in __init__, not at the first call."
# cure_lines = [{line = 41, code = "        self._inner = make_inner(width)"}]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn


def make_inner(width):
    scale = width**-0.5

    def inner(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v

    return inner


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self._inner = None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self._inner is None:
            self._inner = make_inner(x.shape[-1])
        return self._inner(q, k, v)


torch.manual_seed(0)
layer = Attention(8)
model = torch.compile(layer, backend="aot_eager")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
for _ in range(5):
    x = torch.randn(4, 6, 8)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
