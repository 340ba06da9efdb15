"""Scales the output of a compiled block by a setting that is kept in a context variable."""

from contextvars import ContextVar

import torch
from torch import nn

output_scale = ContextVar("output_scale", default=0.5)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.outer = nn.Linear(6, 6)

    def forward(self, x):
        hidden = torch.relu(self.inner(x))
        scale = output_scale.get()
        return x + scale * self.outer(hidden)


torch.manual_seed(0)
model = torch.compile(Block(), backend="eager")
for _ in range(3):
    print("value", repr(model(torch.randn(4, 6)).square().mean().item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/186449"
# asked = "Any ContextVar.get() inside compiled code breaks the graph."
# answer = """\
# Dynamo has no support for tracing ContextVar in the code of users, while it does handle threading.local, and \
# plain values; transformers keeps a plain global beside its context variables for compiled code \
# (transformers#46370)."""
# stack = "torch"
# mechanism = "other: graph break at a method that Dynamo does not trace"
# argument = "output_scale.get"
# before = ""
# after = ""
# line = 19
# lines_accepted = [8, 17, 26]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Keep the setting in a plain global that is read in the forward."
# cure_lines = [
#   {line = 8, code = "output_scale = 0.5"},
#   {line = 19, code = "        scale = output_scale"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
