"""The first request runs under autocast, which the warm-up does not.

Rebuilt from pytorch/pytorch#128134.
"""
# late: autocast -

import torch

import coldstep

weight = torch.ones(4, 4)


@torch.compile(backend="eager")
def forward(weight, x):
    return x @ weight


with torch.no_grad():
    forward(weight, torch.zeros(2, 4))
coldstep.ready()
with coldstep.step("request"), torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    forward(weight, torch.ones(2, 4))
