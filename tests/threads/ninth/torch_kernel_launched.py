"""Serves a network with a kernel of a C library in its middle."""

import ctypes

import torch
from torch import nn

library = ctypes.CDLL(None)


def reorder(states):
    result = torch.empty_like(states)
    half = states.shape[0] // 2
    size = half * states.shape[1] * states.element_size()
    library.memcpy(ctypes.c_void_p(result.data_ptr()), ctypes.c_void_p(states[half:].data_ptr()), size)
    library.memcpy(ctypes.c_void_p(result[half:].data_ptr()), ctypes.c_void_p(states.data_ptr()), size)
    return result


class Mixer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        states = torch.relu(self.first(x))
        return self.second(states + reorder(states))


torch.manual_seed(0)
network = Mixer().eval()
compiled = torch.compile(network, backend="aot_eager")
with torch.no_grad():
    for _ in range(5):
        print("value", repr(compiled(torch.randn(8, 16)).sum().item()))
# /// thread
# address = "https://github.com/NVIDIA/cutile-python/issues/80"
# asked = "A function that launches a cuTile kernel breaks the graph under torch.compile."
# answer = """\
# The launch is a C extension, which Dynamo cannot trace: wrap it in a torch.library.custom_op with a fake."""
# stack = "torch"
# mechanism = "other: graph break at a function that Dynamo does not trace"
# argument = "library.memcpy"
# before = ""
# after = ""
# line = 15
# lines_accepted = [11, 12, 16, 28]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Make it a custom operator."
# cure_lines = [
#   {line = 11, code = '''
# @torch.library.custom_op("kernels::reorder", mutates_args=())
# def reorder(states: torch.Tensor) -> torch.Tensor:'''},
#   {line = 17, code = '''
#     return result
#
#
# reorder.register_fake(torch.empty_like)'''},
# ]
# cure_environment = {}
# losses = "close"
# ///
