"""Generates tokens greedily with a compiled language model."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/161743"
# asked = "A language model wrapped with torch.compile generates no faster, even slower, than without it."
# answer = """\
# A developer: torch.compile(model) does not reach model.generate(), so all of it runs eagerly; write \
# model.forward = torch.compile(model.forward)."""
# stack = "torch"
# mechanism = "other: the compiled wrapper is bypassed"
# argument = "model.generate"
# before = ""
# after = ""
# line = 51
# lines_accepted = [42, 50, 51]
# compiles = [0, 1]
# counted = "graphs that Dynamo compiled (the fault is that there are none)"
# cure = "Replace model.forward by its compiled form (or compile in place with model.compile())."
# cure_lines = [{line = 50, code = "model.forward = torch.compile(model.forward, backend=\"eager\")"}]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocabulary=32, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.mixer = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, window):
        hidden = torch.tanh(self.mixer(self.embedding(window).mean(dim=1)))
        return self.head(hidden)

    @torch.no_grad()
    def generate(self, window, steps):
        for _ in range(steps):
            logits = self(window)
            print("value", repr(logits.max().item()))
            window = torch.cat([window[:, 1:], logits.argmax(dim=-1, keepdim=True)], dim=1)
        return window


torch.manual_seed(0)
model = TinyLM()
model = torch.compile(model, backend="eager")
model.generate(torch.randint(32, (1, 8)), steps=6)
