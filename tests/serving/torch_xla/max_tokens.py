"""The largest batch is no power of two, and the warm-up doubles: `execute` cuts the graph itself.

Rebuilt from vllm-project/vllm#14710.
"""
# late: shape hidden

import torch
import torch_xla

import coldstep

device = torch_xla.device()
table = torch.ones(32, 4, device=device)
torch_xla.sync()


def execute(tokens):
    hidden = table[tokens.to(device)].sum(-1)
    torch_xla.sync()
    return hidden


for size in (16, 32):
    coldstep.wait(execute(torch.zeros(size, dtype=torch.int64)))
coldstep.ready()
for size in (32, 24):
    with coldstep.step("request"):
        coldstep.wait(execute(torch.zeros(size, dtype=torch.int64)))
