"""Denoises latents of several resolutions with one transformer that is compiled for dynamic shapes."""

import torch
from torch import nn


class TransformerConfig:
    in_channels = 16
    inner_dim = 32
    num_heads = 4


class ImageTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_heads
        self.img_in = nn.Linear(config.in_channels, config.inner_dim)
        self.time_in = nn.Linear(1, config.inner_dim)
        self.to_qkv = nn.Linear(config.inner_dim, 3 * config.inner_dim)
        self.proj_out = nn.Linear(config.inner_dim, config.in_channels)

    def forward(self, hidden_states, timestep):
        hidden = self.img_in(hidden_states) + self.time_in(timestep)[:, None]
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.to_qkv(hidden).chunk(3, -1))
        attended = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.proj_out(hidden + attended)


class Pipeline:
    def __init__(self, transformer, num_inference_steps=3):
        self.transformer = transformer
        self.num_inference_steps = num_inference_steps

    def prepare_latents(self, height, width, batch_size=2):
        return torch.randn(batch_size, height * width, TransformerConfig.in_channels)

    @torch.no_grad()
    def __call__(self, height, width):
        latents = self.prepare_latents(height, width)
        for t in torch.linspace(1.0, 0.1, self.num_inference_steps):
            noise_pred = self.transformer(latents, t.expand(latents.shape[0], 1))
            latents = latents - noise_pred / self.num_inference_steps
        return latents


torch.manual_seed(0)
pipe = Pipeline(ImageTransformer(TransformerConfig()).eval())
pipe.transformer = torch.compile(pipe.transformer, backend="eager", dynamic=True)
for height, width in ((4, 4), (4, 8), (6, 6), (8, 8)):
    print("value", repr(pipe(height, width).square().mean().item()))
# /// thread
# address = "https://github.com/huggingface/diffusers/pull/14297"
# asked = """\
# A transformer that is compiled with dynamic=True is compiled again for the next resolution (RecompileError, \
# hidden_states size mismatch at index 1: expected 16)."""
# answer = """\
# The first image's number of latents equals the number of channels; duck shaping gives both one symbol, which the \
# linear layer makes a constant. Set use_duck_shape = False."""
# stack = "torch"
# mechanism = "shape"
# argument = "hidden_states"
# before = "[2, 16, 16]"
# after = "[2, 32, 16]"
# line = 49
# lines_accepted = [22, 23, 41, 48, 50]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Set torch.fx.experimental._config.use_duck_shape to False before compiling."
# cure_lines = [
#   {line = 46, code = """
# torch.manual_seed(0)
# torch.fx.experimental._config.use_duck_shape = False"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
