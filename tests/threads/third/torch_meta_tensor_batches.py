"""Trains a compiled segmenter on images of a transform that returns tensors of its own class, or plain ones."""

import torch
from torch import nn


class MetaTensor(torch.Tensor):
    """An image with a note of where it comes from."""


def transform(image, step):
    return image if step % 3 == 2 else (image * 0.9).as_subclass(MetaTensor)


torch.manual_seed(0)
segmenter = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
model = torch.compile(segmenter, backend="eager")
optimizer = torch.optim.SGD(segmenter.parameters(), lr=0.1)

for step in range(6):
    images = transform(torch.rand(2, 1, 8, 8), step)
    loss = nn.functional.mse_loss(model(images), torch.zeros(2, 1, 8, 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/ProjectNeura/MIPCandy/pull/189"
# asked = "Support torch.compile() in a trainer whose transforms are MONAI's."
# answer = """\
# The transforms return MetaTensor and not torch.Tensor, on whose type Dynamo guards; convert images to plain \
# tensors before the model is called."""
# stack = "torch"
# mechanism = "type"
# argument = "images"
# before = "MetaTensor"
# after = "Tensor"
# line = 21
# lines_accepted = [12, 22]
# compiles = [2, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Make the batch a plain tensor."
# cure_lines = [
#   {line = 21, code = "    images = transform(torch.rand(2, 1, 8, 8), step).as_subclass(torch.Tensor)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
