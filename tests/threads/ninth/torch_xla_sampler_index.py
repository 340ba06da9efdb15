"""Samples by diffusion on an XLA device; each step looks its time up in the schedule."""

import torch
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
weight = (torch.randn(8, 8) / 4).to(device)
latents = torch.randn(4, 8).to(device)
timesteps = torch.linspace(900, 100, 6)
sigmas = torch.linspace(10, 0, 7).to(device)
schedule = timesteps.to(device)
torch_xla.sync()

for timestep in timesteps:
    index = (schedule == timestep.to(device)).nonzero().item()
    sigma, following = sigmas[index], sigmas[index + 1]
    noise = torch.tanh((latents / (sigma**2 + 1) ** 0.5) @ weight)
    latents = latents + noise * (following - sigma)
    torch_xla.sync()
    print("value", repr(latents.abs().mean().item()))
# /// thread
# address = "https://github.com/huggingface/diffusers/issues/4334"
# asked = "On a device with XLA each step of SDXL's scheduler compiles, and nonzero is in each graph."
# answer = """\
# The index of the step is looked up on the device by nonzero: look it up on the host."""
# stack = "torch_xla"
# mechanism = "graph"
# argument = "sigmas[index]"
# before = ""
# after = ""
# line = 16
# lines_accepted = [11, 13, 17, 18, 19, 21]
# compiles = [8, 3]
# counted = "compilations (met.metric_data('CompileTime')[0])"
# cure = "Keep the schedule on the host."
# cure_lines = [
#   {line = 16, code = "    index = (timesteps == timestep).nonzero().item()"},
#   {line = 11, code = "sigmas = torch.linspace(10, 0, 7)"},
#   {line = 17, code = "    sigma, following = sigmas[index].to(device), sigmas[index + 1].to(device)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
