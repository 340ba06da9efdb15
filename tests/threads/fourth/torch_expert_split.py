"""Runs tokens through the experts that they are sorted by, in a compiled layer."""

import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(experts, width, width) * 0.2)

    def forward(self, tokens, counts):
        parts = torch.split(tokens, counts.tolist())
        outputs = [part @ weight for part, weight in zip(parts, self.weights, strict=True)]
        return torch.cat(outputs).relu().sum()


torch.manual_seed(0)
layer = torch.compile(Experts(8, 3), backend="eager")
for counts in ([4, 6, 2], [5, 3, 4], [2, 7, 3]):
    print("value", repr(layer(torch.randn(12, 8), torch.tensor(counts)).item()))
# /// thread
# address = "https://github.com/meta-pytorch/torchtune/pull/2771"
# asked = "Graph breaks in the split of a mixture of experts."
# answer = """\
# Capturing scalar outputs is required to compile MoE: torch._dynamo.config.capture_scalar_outputs = True."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "counts.tolist()"
# before = ""
# after = ""
# line = 13
# lines_accepted = [21]
# compiles = [2, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Set torch._dynamo.config.capture_scalar_outputs."
# cure_lines = [
#   {line = 18, code = """
# torch.manual_seed(0)
# torch._dynamo.config.capture_scalar_outputs = True"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
