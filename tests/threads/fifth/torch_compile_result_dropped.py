"""Trains a small denoiser on latents, with `compile: true` in the job's configuration."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class TrainConfig:
    steps: int = 6
    batch_size: int = 4
    lr: float = 1e-2
    compile: bool = True


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=32):
        super().__init__()
        self.time = nn.Linear(1, width)
        self.down = nn.Conv2d(channels, width, 3, padding=1)
        self.up = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, latents, timestep):
        hidden = F.silu(self.down(latents) + self.time(timestep)[:, :, None, None])
        return self.up(hidden)


class SDTrainProcess:
    def __init__(self, config):
        self.config = config
        self.unet = Denoiser()
        self.optimizer = torch.optim.AdamW(self.unet.parameters(), lr=config.lr)
        if self.config.compile:
            torch.compile(self.unet, dynamic=True)

    def train_step(self, latents):
        noise = torch.randn_like(latents)
        timestep = torch.rand(latents.shape[0], 1)
        noisy = latents + noise * timestep[:, :, None, None]
        loss = F.mse_loss(self.unet(noisy, timestep), noise)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def run(self):
        for _ in range(self.config.steps):
            latents = torch.randn(self.config.batch_size, 4, 16, 16)
            print("loss", repr(self.train_step(latents)))


torch.manual_seed(0)
SDTrainProcess(TrainConfig()).run()
# /// thread
# address = "https://github.com/ostris/ai-toolkit/issues/729"
# asked = "`compile: true` in the training job's configuration seems broken: nothing is compiled."
# answer = """\
# torch.compile() does not work in place: use what it returns, self.sd.unet = torch.compile(self.sd.unet, ...)."""
# stack = "torch"
# mechanism = "other: the compiled wrapper is bypassed"
# argument = "self.unet"
# before = ""
# after = ""
# line = 36
# lines_accepted = [18, 25, 33, 42]
# compiles = [0, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Assign what torch.compile returns."
# cure_lines = [
#   {line = 36, code = "            self.unet = torch.compile(self.unet, dynamic=True)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
