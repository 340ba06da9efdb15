"""Runs a compiled attention layer over packed batches; the wrapper hands on one more keyword for some of them."""

import torch
from torch import nn


def attend(queries, keys, scale, lengths=None):
    scores = queries @ keys.transpose(1, 2) * scale
    if lengths is not None:
        scores = scores.masked_fill(torch.arange(keys.shape[1]) >= lengths[:, None, None], -1e9)
    return scores.softmax(-1) @ keys


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.keywords = {"scale": 0.35}

    def forward(self, x):
        return attend(self.project(x), x, **self.keywords)


torch.manual_seed(0)
attention = Attention()
model = torch.compile(attention, backend="eager")

for step in range(4):
    if step % 2:
        attention.keywords.update(lengths=None)
    else:
        attention.keywords.pop("lengths", None)
    print("value", repr(model(torch.randn(2, 6, 8)).sum().item()))
# /// thread
# address = "https://github.com/xdit-project/xDiT/pull/781"
# asked = "The first timed iteration is slower than the others, because Dynamo compiles again in it."
# answer = """\
# The set of keys of a dict of keywords changes between forwards (three are put in where there is padding, and \
# popped where there is none), and Dynamo guards on it; keep all keys always present, with None where there is \
# no padding."""
# stack = "torch"
# mechanism = "container"
# argument = "self.keywords"
# before = "['scale']"
# after = "['scale', 'lengths']"
# line = 32
# lines_accepted = [21, 30, 33]
# compiles = [2, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Set the key to None in the place of popping it."
# cure_lines = [
#   {line = 32, code = "        attention.keywords[\"lengths\"] = None"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
