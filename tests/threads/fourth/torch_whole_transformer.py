"""Trains a transformer of sixteen equal blocks, compiled as one."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.mix(self.norm(x)).softmax(-1)
        return x + self.contract(nn.functional.gelu(self.expand(self.norm(x))))


class Transformer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


torch.manual_seed(0)
network = Transformer(16, 16)
model = torch.compile(network, backend="aot_eager")
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for _ in range(3):
    loss = model(torch.randn(4, 12, 16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/torchtitan/issues/479"
# asked = """\
# Is it enough to call torch.compile once on the whole model? Why something more fine-grained?"""
# answer = """\
# TransformerBlock is repeated with the same pattern, and the compiler compiles it only once where each block \
# is compiled individually; a whole model works, but compiling takes longer."""
# stack = "torch"
# mechanism = "unrolled"
# argument = "self.blocks"
# before = ""
# after = ""
# line = 26
# lines_accepted = [27, 33, 36]
# compiles = [16, 2]
# counted = "copies of the block in the graphs that are compiled"
# cure = "Compile each block in place of the model."
# cure_lines = [
#   {line = 33, code = """
# for block in network.blocks:
#     block.compile(backend="aot_eager")
# model = network"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
