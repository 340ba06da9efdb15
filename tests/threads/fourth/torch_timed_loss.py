"""Trains with a compiled loss module that times its parts as it runs."""

import time

import torch
from torch import nn

seconds = {}


class timeit:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *error):
        seconds[self.name] = time.perf_counter() - self.begin


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, observation, target):
        with timeit("value"):
            predicted = self.value(observation)
        return (predicted.squeeze(-1) - target).square().mean()


torch.manual_seed(0)
module = Loss()
loss_fn = torch.compile(module, backend="eager")
optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
for _ in range(4):
    observation = torch.randn(32, 6)
    loss = loss_fn(observation, observation.sum(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/pytorch/rl/pull/3297"
# asked = "Timing helpers in the loss modules break the graph under torch.compile."
# answer = """\
# Helpers that return a nullcontext inside a region that torch.compile compiles prevent graph breaks from \
# timing and profiling code."""
# stack = "torch"
# mechanism = "other: graph break on a timer"
# argument = "timeit"
# before = ""
# after = ""
# line = 28
# lines_accepted = [16, 19, 39]
# compiles = [0, 1]
# counted = "unique graphs (counters['stats'])"
# cure = "Time nothing while compiling."
# cure_lines = [
#   {line = 3, code = """
# import contextlib
# import time"""},
#   {line = 28, code = """
#         with contextlib.nullcontext() if torch.compiler.is_compiling() else timeit("value"):"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
