"""Computes energies of molecules with a compiled model that reads its cutoff out of a buffer."""

import math

import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cutoff", torch.tensor(2.5))
        self.scale = nn.Parameter(torch.tensor(0.3))

    def forward(self, positions):
        distances = torch.cdist(positions, positions)
        radius = self.cutoff.item()
        envelope = 0.5 * (torch.cos(math.pi * distances / radius) + 1.0) * (distances < radius)
        return (self.scale * envelope * torch.exp(-distances)).sum()


torch.manual_seed(0)
energy = torch.compile(Energy(), backend="eager")
for _ in range(4):
    print("value", repr(energy(torch.randn(7, 3)).item()))
# /// thread
# address = "https://github.com/isayevlab/aimnetcentral/pull/109"
# asked = "torch.compile is slower than eager: the model compiles to 42 graphs with 41 breaks."
# answer = "Nearly all breaks are Tensor.item(); keep the values tensors while compiling."
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "self.cutoff.item()"
# before = ""
# after = ""
# line = 17
# lines_accepted = [25]
# compiles = [2, 1]
# counted = "unique graphs (counters['stats']), as many as graph breaks and one"
# cure = "Keep the cutoff a tensor."
# cure_lines = [
#   {line = 17, code = "        radius = self.cutoff"},
# ]
# cure_environment = {}
# losses = "close"
# ///
