"""A gap between the buckets: a batch of three is padded to four by nobody.

Rebuilt from vllm-project/vllm#14995.
"""
# late: shape x

import torch

import coldstep

weight = torch.ones(4, 4)


@torch.compile(backend="eager", dynamic=False)
def forward(weight, x):
    return torch.relu(x @ weight)


for size in (1, 2, 4, 8):
    forward(weight, torch.zeros(size, 4))
coldstep.ready()
for size in (4, 3, 8):
    with coldstep.step("request"):
        forward(weight, torch.ones(size, 4))
