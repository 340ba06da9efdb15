"""Decodes token by token with a compiled layer whose cache keeps the number of its entries."""

import torch
from torch import nn


class Cache(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.register_buffer("keys", torch.zeros(length, width))
        self.size = 0

    def forward(self, key):
        positions = torch.arange(self.keys.shape[0])
        self.keys = torch.where((positions == self.size)[:, None], key, self.keys)
        self.size += 1
        return self.keys, positions < self.size


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.cache = Cache(16, width)

    def forward(self, token):
        keys, filled = self.cache(self.project(token))
        scores = (keys @ token).masked_fill(~filled, float("-inf"))
        return scores.softmax(-1) @ keys


torch.manual_seed(0)
decode = torch.compile(Attention(8), backend="eager")
token = torch.randn(8)

with torch.no_grad():
    for _ in range(8):
        token = decode(token)
        print("value", repr(token.sum().item()))
# /// thread
# address = "https://github.com/meta-pytorch/torchtune/pull/1663"
# asked = "A compiled model with a KV cache recompiles at each decoded token."
# answer = """\
# The cache's size is a Python int on which Dynamo guards (kv_cache.size == 4), and it grows with each token; \
# keep the position in a tensor that is a buffer."""
# stack = "torch"
# mechanism = "module_attribute"
# argument = "size"
# before = "0"
# after = "1"
# line = 11
# lines_accepted = [15, 16, 27, 38]
# compiles = [8, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Keep the size in a buffer."
# cure_lines = [
#   {line = 11, code = "        self.register_buffer(\"size\", torch.zeros((), dtype=torch.int64))"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
