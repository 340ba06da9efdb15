"""A print inside the compiled function."""
# expect: nothing
# settles: 1
# break: side_effect

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    y = x + 1
    print("loss")
    return y * 2


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
