"""One request compiles the function and what follows its graph break; one call warms both up.

Rebuilt from vllm-project/vllm#20451, where a model is many graphs.
"""
# late: shape x
# late: shape x
# calls: 1

import torch

import coldstep


@torch.compile(backend="eager", dynamic=False)
def forward(x):
    x = x * 2
    torch._dynamo.graph_break()
    return x + 1


for size in (4, 8):
    forward(torch.zeros(size, 4))
coldstep.ready()
for size in (8, 6):
    with coldstep.step("request"):
        forward(torch.ones(size, 4))
