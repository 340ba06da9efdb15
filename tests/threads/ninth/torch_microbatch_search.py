"""Looks for the largest microbatch that fits, then trains with it."""

import torch
from torch import nn
from torch.nn import functional as F

BUDGET = 16 * 64  # numbers that the activations may take


def train(model, images, labels):
    loss = F.cross_entropy(model(images), labels)
    if images.shape[0] * 64 > BUDGET:
        raise torch.OutOfMemoryError("activations")
    loss.backward()
    return loss


def largest_microbatch(model, images, labels):
    size = images.shape[0]
    while size > 1:
        try:
            train(model, images[:size], labels[:size])
        except torch.OutOfMemoryError:
            size //= 2
        else:
            return size
    return size


torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.ReLU(), nn.Linear(64, 4))
compiled = torch.compile(network, backend="aot_eager")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
images, labels = torch.randn(64, 1, 6, 6), torch.randint(0, 4, (64,))
microbatch = largest_microbatch(compiled, images, labels)
for _ in range(4):
    optimizer.zero_grad()
    for part in range(0, 64, microbatch):
        loss = train(compiled, images[part : part + microbatch], labels[part : part + microbatch])
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/mosaicml/composer/issues/2214"
# asked = "With an automatic microbatch size and a compiled model the launch is very slow."
# answer = """\
# Each size that is tried compiles the model again: find the size with the model as it is, and compile for that \
# one (a maintainer agrees)."""
# stack = "torch"
# mechanism = "shape"
# argument = "images"
# before = "64"
# after = "32"
# line = 35
# lines_accepted = [11, 22, 32, 39]
# compiles = [2, 1]
# counted = "compiles (counters['stats']['unique_graphs'])"
# cure = "Search with the network itself."
# cure_lines = [
#   {line = 35, code = "microbatch = largest_microbatch(network, images, labels)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
