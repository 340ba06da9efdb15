"""Warms an image model up with one image and then serves batches of several sizes with dynamic=True."""

# /// thread
# address = "https://github.com/huggingface/lora-fast/issues/5"
# asked = "Warmed up with one image per prompt, a model compiled with dynamic=True is compiled again for two images."
# answer = """\
# A PyTorch maintainer (pytorch#135430): sizes 0 and 1 are always specialised unless marked unbacked; so warm up \
# with two."""
# stack = "torch"
# mechanism = "shape"
# argument = "latents"
# before = "1"
# after = "2"
# line = 31
# lines_accepted = [29, 31, 35]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Warm up with a batch of two images."
# cure_lines = [{line = 31, code = "sizes = [2, 2, 4, 3, 6]"}]
# cure_environment = {}
# losses = "close"
# ///

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=1)).eval()
transformer = torch.compile(net, backend="aot_eager", dynamic=True)

sizes = [1, 2, 4, 3, 6]
with torch.no_grad():
    for images in sizes:
        latents = torch.ones(images, 4, 8, 8)
        print("value", repr(transformer(latents).mean().item()))
