"""Jitters the colors of batches with a module whose `compile` compiles its helpers."""

import torch
from torch import nn


def adjust_brightness(images, factor):
    return (images + (factor - 1.0).view(-1, 1, 1, 1)).clamp(0.0, 1.0)


def adjust_contrast(images, factor):
    return (images * factor.view(-1, 1, 1, 1)).clamp(0.0, 1.0)


def adjust_saturation(images, factor):
    gray = images.mean(1, keepdim=True)
    return (gray + (images - gray) * factor.view(-1, 1, 1, 1)).clamp(0.0, 1.0)


class ColorJitter(nn.Module):
    def __init__(self, strength):
        super().__init__()
        self.strength = strength
        self._brightness_fn = adjust_brightness
        self._contrast_fn = adjust_contrast
        self._saturation_fn = adjust_saturation

    def compile(self, **options):
        self.brightness_fn = torch.compile(self._brightness_fn, **options)
        self.contrast_fn = torch.compile(self._contrast_fn, **options)
        self.saturation_fn = torch.compile(self._saturation_fn, **options)

    def forward(self, images):
        factors = 1.0 + self.strength * (2.0 * torch.rand(3, images.shape[0]) - 1.0)
        images = self._brightness_fn(images, factors[0])
        images = self._contrast_fn(images, factors[1])
        return self._saturation_fn(images, factors[2])


torch.manual_seed(0)
jitter = ColorJitter(0.2)
jitter.compile(fullgraph=True)
for _ in range(6):
    batch = torch.rand(4, 3, 32, 32)
    print("value", repr(jitter(batch).mean().item()))
# /// thread
# address = "https://github.com/kornia/kornia/issues/4038"
# asked = "ColorJitter.compile() compiles helpers, and the output is right, but no graph is ever compiled."
# answer = """\
# It stores what torch.compile returns on attributes that nobody calls: apply_transform calls \
# `_brightness_fn`, and compile() sets `brightness_fn`. Replace the same attributes."""
# stack = "torch"
# mechanism = "other: the compiled wrapper is bypassed"
# argument = "_brightness_fn"
# before = ""
# after = ""
# line = 29
# lines_accepted = [24, 30, 31, 35, 42, 45]
# compiles = [0, 3]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Assign what torch.compile returns to the attributes that forward calls."
# cure_lines = [
#   {line = 29, code = "        self._brightness_fn = torch.compile(self._brightness_fn, **options)"},
#   {line = 30, code = "        self._contrast_fn = torch.compile(self._contrast_fn, **options)"},
#   {line = 31, code = "        self._saturation_fn = torch.compile(self._saturation_fn, **options)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
