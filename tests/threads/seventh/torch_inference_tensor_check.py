"""Trains a classifier on a text encoder whose rotary embedding renews its cached tables where they were made for
inference."""

import torch
from torch import nn
from torch.nn import functional as F


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2) / dim), persistent=False)
        self._seq_len_cached = 0
        self._cos_cached = None
        self._sin_cached = None

    def _update_cos_sin_cache(self, seqlen, dtype):
        if (
            seqlen > self._seq_len_cached
            or self._cos_cached is None
            or self._cos_cached.dtype != dtype
            or (self.training and self._cos_cached.is_inference())
        ):
            self._seq_len_cached = seqlen
            freqs = torch.outer(torch.arange(seqlen, dtype=torch.float32), self.inv_freq)
            self._cos_cached = torch.cos(freqs).to(dtype)
            self._sin_cached = torch.sin(freqs).to(dtype)

    def forward(self, q):
        self._update_cos_sin_cache(q.shape[1], q.dtype)
        first, second = q.chunk(2, dim=-1)
        cos, sin = self._cos_cached[: q.shape[1]], self._sin_cached[: q.shape[1]]
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Encoder(nn.Module):
    def __init__(self, vocabulary=50, dim=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.rotary = RotaryEmbedding(dim)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, ids):
        hidden = self.rotary(self.tokens(ids))
        return self.head(F.gelu(self.mix(hidden)).mean(1))


torch.manual_seed(0)
model = Encoder()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ids, labels = torch.randint(0, 50, (8, 12)), torch.randint(0, 3, (8,))
model(ids)
for _ in range(5):
    loss = F.cross_entropy(compiled(ids), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/nomic-ai/contrastors/pull/83"
# asked = "The check of the rotary embedding's cache causes a graph break when using torch.compile."
# answer = """\
# Tensor.is_inference leads to the graph break; without the check training is a third faster, with \
# fullgraph=True."""
# stack = "torch"
# mechanism = "other: graph break at a method that Dynamo does not trace"
# argument = "is_inference"
# before = ""
# after = ""
# line = 22
# lines_accepted = [30, 45, 18]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Leave the check out."
# cure_lines = [
#   {line = 22, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
