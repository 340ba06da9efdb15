"""Runs a stack of equal blocks, each compiled by a helper that puts a custom backend together."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/168373"
# asked = "Equal submodules compiled one by one are compiled again for each of them (backend mismatch)."
# answer = """\
# A maintainer: the helper makes a new backend function at each call and Dynamo guards on the backend object; make \
# the backend once and reuse it."""
# stack = "torch"
# mechanism = "identity"
# argument = "backend"
# before = "a backend function"
# after = "another backend function"
# line = 49
# lines_accepted = [49, 50, 54, 59]
# compiles = [5, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Create the aot_autograd backend once, at module level, and pass that object to every torch.compile."
# cure_lines = [
#     {line = 47, code = "backend = aot_autograd(fw_compiler=passthrough)"},
#     {line = 49, code = ""},
#     {line = 50, code = "    return torch.compile(block, backend=backend)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.tanh(self.linear(x))


def passthrough(graph, inputs):
    return make_boxed_func(graph.forward)


# One helper for all the models of this repository.
def compiled(block):
    backend = aot_autograd(fw_compiler=passthrough)
    return torch.compile(block, backend=backend)


torch.manual_seed(0)
blocks = [compiled(Block()) for _ in range(5)]
with torch.no_grad():
    for _ in range(3):
        x = torch.randn(4, 8)
        for block in blocks:
            x = block(x)
        print("value", repr(x.sum().item()))
