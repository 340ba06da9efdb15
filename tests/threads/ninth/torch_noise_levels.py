"""Denoises in steps, each at another level of noise."""

import itertools

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 8)).eval()


@torch.compile(dynamic=True, backend="aot_eager")
def denoise(x, sigma):
    scale = 1 / (sigma**2 + 0.25) ** 0.5
    level = torch.full((x.shape[0], 1), sigma).log() / 4
    return x * scale**2 * 0.25 + network(torch.cat((x * scale, level), dim=1)) * sigma * scale * 0.5


sigmas = [10.0, 5.5, 2.9, 1.4, 0.6, 0.2, 0.05]
with torch.no_grad():
    x = torch.randn(4, 8) * sigmas[0]
    for sigma, following in itertools.pairwise(sigmas):
        slope = (x - denoise(x, sigma)) / sigma
        x = x + slope * (following - sigma)
        print("value", repr(x.abs().mean().item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/149406"
# asked = "A float argument compiles a function anew for each value, with dynamic=True."
# answer = """\
# A number is guarded by its value: give it as a tensor."""
# stack = "torch"
# mechanism = "python_scalar"
# argument = "sigma"
# before = "10.0"
# after = "5.5"
# line = 23
# lines_accepted = [12, 13, 14, 15, 19, 22]
# compiles = [6, 1]
# counted = "compiles of denoise (counters['stats']['unique_graphs'])"
# cure = "Give sigma as a tensor."
# cure_lines = [
#   {line = 15, code = "    level = sigma.expand(x.shape[0], 1).log() / 4"},
#   {line = 23, code = "        slope = (x - denoise(x, torch.tensor(sigma))) / sigma"},
# ]
# cure_environment = {}
# losses = "close"
# ///
