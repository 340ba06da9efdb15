"""Normalizes and fades batches of images with one compiled preprocessing function."""

import random

import torch


@torch.compile(backend="eager")
def preprocess(images):
    images = (images - images.mean()) / images.std()
    factor = random.random()
    return torch.clamp(images * factor, -1.0, 1.0)


random.seed(0)
torch.manual_seed(0)
for _ in range(4):
    images = preprocess(torch.rand(4, 3, 8, 8))
    print("value", repr(images.abs().mean().item()))
# /// thread
# address = "https://github.com/pytorch/pytorch/issues/145446"
# asked = "random.random() breaks the graph, which it did not do in earlier versions."
# answer = """\
# random.random is a built-in method that Dynamo skips, unlike randint, randrange and uniform, which it supports; \
# use one of these."""
# stack = "torch"
# mechanism = "other: graph break at a function that Dynamo does not trace"
# argument = "random.random"
# before = ""
# after = ""
# line = 11
# lines_accepted = [8, 9, 12, 18]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Draw the number with random.uniform(0.0, 1.0)."
# cure_lines = [
#   {line = 11, code = "    factor = random.uniform(0.0, 1.0)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
