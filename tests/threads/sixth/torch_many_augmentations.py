"""Applies a pipeline of compiled augmentations, each a class of its own with a transform."""

import torch
from torch import nn


class Augmentation(nn.Module):
    def forward(self, images, strength):
        mixed = torch.lerp(images, self.apply_transform(images), strength)
        return mixed.clamp(0.0, 1.0)


class Grayscale(Augmentation):
    def apply_transform(self, images):
        return images.mean(1, keepdim=True).expand_as(images)


class HorizontalFlip(Augmentation):
    def apply_transform(self, images):
        return images.flip(-1)


class VerticalFlip(Augmentation):
    def apply_transform(self, images):
        return images.flip(-2)


class Invert(Augmentation):
    def apply_transform(self, images):
        return 1.0 - images


class Brightness(Augmentation):
    def apply_transform(self, images):
        return images + 0.1


class Contrast(Augmentation):
    def apply_transform(self, images):
        return images * 1.2


class Solarize(Augmentation):
    def apply_transform(self, images):
        return torch.where(images > 0.5, 1.0 - images, images)


class Posterize(Augmentation):
    def apply_transform(self, images):
        return (images * 7.0).round() / 7.0


class ChannelShuffle(Augmentation):
    def apply_transform(self, images):
        return images.roll(1, 1)


class Gamma(Augmentation):
    def apply_transform(self, images):
        return images.sqrt()


def build_pipeline():
    classes = [Grayscale, HorizontalFlip, VerticalFlip, Invert, Brightness]
    classes += [Contrast, Solarize, Posterize, ChannelShuffle, Gamma]
    return [torch.compile(each()) for each in classes]


torch.manual_seed(0)
pipeline = build_pipeline()
for _ in range(5):
    images = torch.rand(4, 3, 16, 16)
    for augmentation in pipeline:
        images = augmentation(images, 0.25)
    print("value", repr(images.mean().item()))
# /// thread
# address = "https://github.com/kornia/kornia/issues/4658"
# asked = "Compiled augmentations are slower than eager ones: Dynamo cannot tell them apart, and hits recompile_limit."
# answer = """\
# All classes inherit one forward, so they share one cache entry, keyed on the type of self, of 8 entries. \
# Give each class a code object of its own (pull request 4659); do not raise the limit."""
# stack = "torch"
# mechanism = "type"
# argument = "self"
# before = "Grayscale"
# after = "HorizontalFlip"
# line = 8
# lines_accepted = [7, 9, 66, 74]
# compiles = [8, 10]
# counted = "of ten augmentations those that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Give each class a forward with a code object of its own."
# cure_lines = [
#   {line = 7, code = """
# class Augmentation(nn.Module):
#     def __init_subclass__(cls):
#         forward = Augmentation.forward
#         cls.forward = type(forward)(forward.__code__.replace(), forward.__globals__)
# """},
# ]
# cure_environment = {}
# losses = "close"
# ///
