"""Swaps adapters of several ranks into a compiled model, one for each request."""

# /// thread
# address = "https://github.com/huggingface/diffusers/pull/9453"
# asked = "Loading another LoRA into a compiled pipeline compiles the model again."
# answer = """\
# Maintainers: the adapters' ranks differ, so the weights' shapes do; pad them to the largest rank \
# (prepare_model_for_compiled_hotswap with target_rank) and copy new values in."""
# stack = "torch"
# mechanism = "shape"
# argument = "self.down"
# before = "2"
# after = "4"
# line = 39
# lines_accepted = [39, 40, 48, 53]
# compiles = [4, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Pad each adapter with zeros to the largest rank when it is loaded."
# cure_lines = [
#     {line = 39, code = "        self.down.data = nn.functional.pad(down, (0, 0, 0, 8 - len(down)))"},
#     {line = 40, code = "        self.up.data = nn.functional.pad(up, (0, 8 - len(down)))"},
# ]
# cure_environment = {}
# losses = "close"
# ///

import torch
from torch import nn


class AdaptedLinear(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.down = nn.Parameter(torch.zeros(8, width))
        self.up = nn.Parameter(torch.zeros(width, 8))

    def swap(self, down, up):
        self.down.data = down
        self.up.data = up

    def forward(self, x):
        return self.base(x) + (x @ self.down.T) @ self.up.T


torch.manual_seed(0)
layer = AdaptedLinear(16)
model = torch.compile(layer, backend="eager")
adapters = {rank: (torch.randn(rank, 16), torch.randn(16, rank)) for rank in (2, 4, 8, 3)}
with torch.no_grad():
    for rank in (2, 4, 8, 3, 4, 2):
        layer.swap(*adapters[rank])
        print("value", repr(model(torch.randn(4, 16)).sum().item()))
