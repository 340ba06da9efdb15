"""Refines a latent with a small network on an XLA device and prints its mean after each pass."""

# /// thread
# address = "https://github.com/pytorch/xla/issues/7596"
# asked = "Printing a tensor takes a very long time in each pass of an inference loop on a TPU."
# answer = """\
# A maintainer: operations only collect until something reads a value, so the print has to compile and run all of \
# them; call xm.mark_step() (torch_xla.sync()) after the inference."""
# stack = "torch_xla"
# mechanism = "host_read"
# argument = "latent.mean().item()"
# before = ""
# after = ""
# line = 47
# lines_accepted = [46, 47]
# compiles = [6, 2]
# counted = "compilations (met.metric_data('CompileTime')[0])"
# cure = "Call torch_xla.sync() after each pass, before the value is read."
# cure_lines = [{line = 46, code = "        latent = network(image, latent)\n        torch_xla.sync()"}]
# cure_environment = {}
# losses = "close"
# ///

import torch
import torch_xla
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(8, 8)
        self.latent = nn.Linear(8, 8)

    def forward(self, image, latent):
        return torch.tanh(self.image(image) + self.latent(latent))


torch.manual_seed(0)
device = torch_xla.device()
network = Network().to(device).eval()
image, latent = torch.randn(4, 8).to(device), torch.zeros(4, 8).to(device)

with torch.no_grad():
    for _ in range(6):
        latent = network(image, latent)
        print("value", repr(latent.mean().item()))
