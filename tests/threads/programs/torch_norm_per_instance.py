"""Runs a deep stack of normalisation layers that share one compiled kernel method."""

# /// thread
# address = "https://github.com/unslothai/unsloth-zoo/pull/1003"
# asked = "A deep model prints that it ran out of recompilation cache for its RMSNorm and runs the norm eagerly."
# answer = """\
# The compiled method reads the attributes of its own layer, so each layer's value makes another entry of the same \
# code; compile a function that gets tensors and the few plain values that matter."""
# stack = "torch"
# mechanism = "silent_eager"
# argument = "self.name"
# before = "'layer0'"
# after = "'layer1'"
# line = 53
# lines_accepted = [50, 53, 57, 62]
# compiles = [8, 1]
# counted = "graphs that Dynamo compiled (as it is, the limit of 8 is reached and four layers run eagerly)"
# cure = "Compile a plain function of the tensors, without self."
# cure_lines = [
#     {line = 50, code = ""},
#     {line = 53, code = "        return self.statistics.setdefault(self.name, 1.0) * kernel(x, self.weight)"},
#     {line = 56, code = """
# @torch.compile(backend="eager")
# def kernel(x, weight):
#     return weight * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
#
#
# torch.manual_seed(0)"""},
#     {line = 52, code = ""},
# ]
# cure_environment = {}
# losses = "equal"
# ///

from typing import ClassVar

import torch
from torch import nn


class Norm(nn.Module):
    statistics: ClassVar = {}

    def __init__(self, name, width):
        super().__init__()
        self.name = name
        self.weight = nn.Parameter(torch.ones(width))
        self.statistics[name] = 1.0

    @torch.compile(backend="eager")
    def forward(self, x):
        scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
        return self.statistics[self.name] * self.weight * x * scale


torch.manual_seed(0)
norms = [Norm(f"layer{i}", 8) for i in range(12)]
with torch.no_grad():
    for _ in range(3):
        x = torch.randn(4, 8)
        for norm in norms:
            x = torch.tanh(norm(x) + x)
        print("value", repr(x.sum().item()))
