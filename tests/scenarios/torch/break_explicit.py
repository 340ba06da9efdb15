"""graph_break() itself."""
# expect: nothing
# settles: 1
# break: explicit

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
