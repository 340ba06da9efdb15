"""Measures a model under two attention implementations, which an environment variable selects."""

import os

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if int(os.getenv("ATTENTION_WINDOW", "0")):
            band = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(1).triu(-1)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=band)
        return F.scaled_dot_product_attention(q, k, v)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.attention(x)).mean()


@torch.no_grad()
def measure(model, batches, window):
    os.environ["ATTENTION_WINDOW"] = str(window)
    return sum(model(batch).item() for batch in batches) / len(batches)


torch.manual_seed(0)
model = torch.compile(Model())
batches = [torch.randn(4, 10, 16) for _ in range(3)]
for window in (0, 1):
    print("value", repr(measure(model, batches, window)))
# /// thread
# address = "https://github.com/pytorch/pytorch/pull/189027"
# asked = "os.getenv within a compiled function: it goes on with the value of the first call, without a recompile."
# answer = """\
# os.environ is reached through a global of the standard library, whose guards are dropped. Read it outside \
# (or from os.environ of the user's own module, which is guarded)."""
# stack = "torch"
# mechanism = "baked_constant"
# argument = "ATTENTION_WINDOW"
# before = ""
# after = ""
# line = 17
# lines_accepted = [35, 43]
# compiles = [1, 2]
# counted = "graphs that Dynamo compiled: one more, and wanted, with the cure (the second value is wrong without)"
# cure = "Read os.environ, which Dynamo guards."
# cure_lines = [
#   {line = 17, code = "        if int(os.environ.get(\"ATTENTION_WINDOW\", \"0\")):"},
# ]
# cure_environment = {}
# losses = "other"
# ///
