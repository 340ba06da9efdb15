"""The whole function must be one graph, and a branch depends on data: PyTorch raises."""
# expect: nothing
# finding: failed_compile

import contextlib

import torch


@torch.compile(backend="eager", fullgraph=True)
def step(x):
    return x * 2 if x.sum() > 0 else x


with contextlib.suppress(torch._dynamo.exc.UserError, torch._dynamo.exc.Unsupported):
    step(torch.ones(3))
