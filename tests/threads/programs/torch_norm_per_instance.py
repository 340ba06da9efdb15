"""Runs norm layers of many widths that share one compiled forward."""

# /// thread
# address = "https://github.com/unslothai/unsloth-zoo/pull/1003"
# asked = """\
# A model with hundreds of norms runs out of recompilation cache for RMSNorm.forward, which then runs eagerly or \
# fails."""
# answer = """\
# The maintainer: one code object serves all instances and reads the weight from self, and parameters are always \
# static in shape, so each width makes an entry; compile a function that gets the weight as a plain tensor."""
# stack = "torch"
# mechanism = "silent_eager"
# argument = "self.weight"
# before = "4 elements"
# after = "5 elements"
# line = 52
# lines_accepted = [49, 52, 56, 61]
# compiles = [8, 2]
# counted = "graphs that Dynamo compiled (as it is, the limit of 8 is reached and four widths run eagerly)"
# cure = "Compile a plain function and pass the weight detached, so that its size can become dynamic."
# cure_lines = [
#     {line = 49, code = "    def forward(self, x):"},
#     {line = 51, code = "        return normalise(x, self.weight.detach())"},
#     {line = 52, code = ""},
#     {line = 55, code = """
#
#
# @torch.compile(backend="eager")
# def normalise(x, weight):
#     return weight * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
#
#
# torch.manual_seed(0)"""},
#     {line = 50, code = ""},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    @torch.compile(backend="eager")
    def forward(self, x):
        scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
        return self.weight * x * scale


torch.manual_seed(0)
norms = [Norm(width) for width in range(4, 16)]
with torch.no_grad():
    for _ in range(3):
        total = torch.zeros(())
        for norm in norms:
            total += norm(torch.randn(4, len(norm.weight))).sum()
        print("value", repr(total.item()))
