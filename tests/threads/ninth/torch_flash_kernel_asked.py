"""Serves a transformer whose attention asks PyTorch whether its flash kernel can be used."""

import torch
from torch import nn
from torch.nn import functional as F


def flash_is_possible(query, key, value):
    params = torch._C._SDPAParams(query, key, value, None, 0.0, False, False)
    return torch._C._can_use_flash_attention(params, False)


class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if flash_is_possible(query, key, value):
            query, key, value = query.half(), key.half(), value.half()
        attended = F.scaled_dot_product_attention(query, key, value)
        return x + self.out(attended.transpose(1, 2).flatten(2).to(x.dtype))


torch.manual_seed(0)
network = nn.Sequential(Attention(), Attention(), Attention(), nn.Linear(16, 4)).eval()
compiled = torch.compile(network, backend="aot_eager")
with torch.no_grad():
    for _ in range(4):
        print("value", repr(compiled(torch.randn(2, 10, 16)).sum().item()))
# /// thread
# address = "https://github.com/keras-team/keras/pull/23327"
# asked = "The compiled forward of six layers of attention breaks 19 times."
# answer = """\
# The probe for flash attention constructs a pybind11 object (SDPAParams), which Dynamo cannot trace: report it \
# unavailable while compiling."""
# stack = "torch"
# mechanism = "other: graph break at a function that Dynamo does not trace"
# argument = "_SDPAParams"
# before = ""
# after = ""
# line = 9
# lines_accepted = [8, 10, 22]
# compiles = [4, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Return before the probe while compiling."
# cure_lines = [
#   {line = 9, code = '''
#     if torch.compiler.is_compiling():
#         return False
#     params = torch._C._SDPAParams(query, key, value, None, 0.0, False, False)'''},
# ]
# cure_environment = {}
# losses = "close"
# ///
