"""Relaxes paths of several lengths between two points by gradient descent on a compiled energy."""

import torch
from torch import nn


@torch.compile(backend="eager", dynamic=True)
def energy(path):
    steps = path[1:] - path[:-1]
    wall = torch.exp(-(path - 0.5).square().sum(dim=1) / 0.02)
    return steps.square().sum() + 0.1 * wall.mean()


torch.manual_seed(0)
for count in [12, 16, 20, 24, 28]:
    path = nn.Parameter(torch.linspace(0, 1, count)[:, None].repeat(1, 2) + 0.01 * torch.randn(count, 2))
    optimizer = torch.optim.SGD([path], lr=0.05)
    for _ in range(5):
        loss = energy(path)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/105279"
# asked = "A function of inputs whose length varies is compiled again for each length although dynamic=True is set."
# answer = """\
# Dynamo treats the shapes of nn.Parameter as static whatever dynamic says; the switch for it (pull request 105855) \
# is torch._dynamo.config.force_parameter_static_shapes = False."""
# stack = "torch"
# mechanism = "shape"
# argument = "path"
# before = "(12, 2)"
# after = "(16, 2)"
# line = 19
# lines_accepted = [7, 8, 15, 16]
# compiles = [5, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Set torch._dynamo.config.force_parameter_static_shapes to False."
# cure_lines = [
#   {line = 14, code = """
# torch.manual_seed(0)
# torch._dynamo.config.force_parameter_static_shapes = False"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
