"""The number of requests that is warmed up is not the one that is configured.

Rebuilt from vllm-project/vllm#15553.
"""
# late: shape x

import torch
import torch_xla

import coldstep

device = torch_xla.device()
weight = torch.ones(4, 4, device=device)
torch_xla.sync()


def forward(x):
    return torch.relu(x @ weight)


compiled = torch_xla.compile(forward)
for size in (4, 8):
    x = torch.zeros(size, 4).to(device)
    coldstep.wait(compiled(x))
coldstep.ready()
for size in (8, 6):
    x = torch.ones(size, 4).to(device)
    with coldstep.step("request"):
        coldstep.wait(compiled(x))
