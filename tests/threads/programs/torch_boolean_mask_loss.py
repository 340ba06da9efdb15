"""Trains box offsets with a compiled loss that corrects only the boxes that do not overlap."""

# /// thread
# address = "https://github.com/pytorch/vision/pull/9518"
# asked = "The giou and diou losses break the graph under torch.compile."
# answer = """\
# Indexing with a boolean mask makes a size that depends on data; compute on all elements and use clamp (or where) \
# in place of the mask."""
# stack = "torch"
# mechanism = "graph_break:data_dependent"
# argument = "gap[gap > 0]"
# before = ""
# after = ""
# line = 36
# lines_accepted = [32, 36, 41]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Clamp the gap at zero in place of selecting its positive elements."
# cure_lines = [{line = 36, code = "    penalty = gap.clamp(min=0).sum()"}]
# cure_environment = {}
# losses = "close"
# ///

import torch

torch.manual_seed(0)
offsets = torch.zeros(16, 2, requires_grad=True)
boxes, targets = torch.randn(16, 2), torch.randn(16, 2)
optimizer = torch.optim.SGD([offsets], lr=0.05)


@torch.compile(backend="eager")
def box_loss(offsets):
    distance = (boxes + offsets - targets).abs()
    gap = distance.amax(dim=1) - 1
    penalty = gap[gap > 0].sum()
    return distance.mean() + penalty


for _ in range(5):
    loss = box_loss(offsets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
