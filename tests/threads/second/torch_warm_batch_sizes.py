"""Warms a compiled decoder up for every batch size that the server will use, then serves a few requests."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.output = nn.Linear(16, 50)

    def forward(self, tokens):
        return self.output(torch.tanh(self.embedding(tokens).mean(dim=1)))


torch.manual_seed(0)
model = torch.compile(Decoder().eval(), backend="eager", dynamic=False)
with torch.inference_mode():
    for batch_size in range(1, 13):
        model(torch.zeros(batch_size, 6, dtype=torch.long))
    for batch_size in [2, 11, 12, 9, 10]:
        tokens = torch.randint(0, 50, (batch_size, 6))
        print("value", repr(model(tokens).sum().item()))
# /// thread
# address = "https://github.com/NVIDIA/TensorRT-LLM/issues/6142"
# asked = """\
# Compiling once for each batch size hits the recompile limit (8) and the later batch sizes run in eager code."""
# answer = """\
# Each shape fails the guards of the graphs before it, and Dynamo stops after eight; raise the limit so that all the \
# batch sizes fit."""
# stack = "torch"
# mechanism = "shape"
# argument = "tokens"
# before = "(8, 6)"
# after = "(9, 6)"
# line = 21
# lines_accepted = [13, 18, 20, 24]
# compiles = [8, 12]
# counted = "graphs that Dynamo compiled, of the 12 that the warm-up asks for (four batch sizes stay eager)"
# cure = "Raise torch._dynamo.config.recompile_limit above the number of batch sizes."
# cure_lines = [
#   {line = 17, code = """
# torch.manual_seed(0)
# torch._dynamo.config.recompile_limit = 32"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
