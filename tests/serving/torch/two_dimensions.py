"""Two requests that differ in different dimensions: one call of the warm-up would have left both open.

Rebuilt from HabanaAI/vllm-fork#201, where buckets are of batches and of lengths.
"""
# late: shape x
# late: shape x
# calls: 1

import torch

import coldstep


@torch.compile(backend="eager")
def forward(x, weight):
    return (x[..., None] * weight).sum()


weight = torch.ones(3)
forward(torch.zeros(2, 64), weight)
coldstep.ready()
for shape in ((2, 64), (2, 317), (3, 317), (5, 18)):
    with coldstep.step("request"):
        forward(torch.ones(shape), weight)
