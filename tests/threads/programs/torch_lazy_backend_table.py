"""Reshapes tensors through a small layer that looks its backend up in a table filled on demand."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/171488"
# asked = """\
# A compiled function that fills a global dict on first use is compiled again at its second call; einops does \
# this."""
# answer = """\
# The author, a developer of Dynamo: the first call changes the global dict that its own guards read; initialise \
# the library beforehand."""
# stack = "torch"
# mechanism = "container"
# argument = "_backends"
# before = "{}"
# after = "{'Tensor': 'torch'}"
# line = 36
# lines_accepted = [30, 35, 36, 41, 52]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Fill the table once before the first compiled call."
# cure_lines = [
#     {line = 47, code = "backend_of(torch.zeros(()))\nmodel = torch.compile(merge_heads, backend=\"eager\")"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch

_backends = {}


def backend_of(tensor):
    name = type(tensor).__name__
    if name not in _backends:
        _backends[name] = "torch"
    return _backends[name]


def merge_heads(x):
    if backend_of(x) != "torch":
        raise TypeError("not a torch tensor")
    batch, heads, length, width = x.shape
    return x.permute(0, 2, 1, 3).reshape(batch, length, heads * width)


model = torch.compile(merge_heads, backend="eager")

torch.manual_seed(0)
for _ in range(4):
    x = torch.randn(2, 3, 4, 5)
    print("value", repr(model(x)[:, 0].sum().item()))
