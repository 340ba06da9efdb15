"""Decodes with a key-value cache that makes the entry of a layer when it is first used."""

# /// thread
# address = "https://github.com/huggingface/transformers/pull/42467"
# asked = "A key-value cache used in a compiled, hand-written generation loop fails or costs further compilations."
# answer = """\
# A maintainer: the cache makes its entries lazily at the first call, which must not be compiled; initialise the \
# cache early (or do not compile the prefill)."""
# stack = "torch"
# mechanism = "container"
# argument = "cache.keys"
# before = "[]"
# after = "[tensor, tensor]"
# line = 38
# lines_accepted = [34, 37, 38, 50, 56, 61]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Make the list entries of all layers when the cache is created, with their final size."
# cure_lines = [
#     {line = 34, code = "        self.keys = [torch.zeros(LENGTH, WIDTH) for _ in range(LAYERS)]"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn

LAYERS, WIDTH, LENGTH = 2, 8, 8


class Cache:
    def __init__(self):
        self.keys = []

    def update(self, layer, position, key):
        if len(self.keys) <= layer:
            self.keys.append(torch.zeros(LENGTH, WIDTH))
        self.keys[layer].index_copy_(0, position, key)
        return self.keys[layer]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x, position, cache):
        for i, projection in enumerate(self.projections):
            keys = cache.update(i, position, projection(x))
            x = x + torch.softmax(x @ keys.T, dim=-1) @ keys
        return x


torch.manual_seed(0)
decoder = torch.compile(Decoder(), backend="eager")
cache = Cache()
x = torch.randn(1, WIDTH)
with torch.no_grad():
    for step in range(6):
        x = torch.tanh(decoder(x, torch.tensor([step]), cache))
        print("value", repr(x.sum().item()))
