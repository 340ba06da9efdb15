"""A break inside a loop: the whole function runs eagerly."""
# expect: nothing
# settles: 1
# break: skipped_frame

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    for _ in range(3):
        x = x + 1
        torch._dynamo.graph_break()
    return x


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
