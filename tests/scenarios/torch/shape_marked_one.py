"""The dimension was marked dynamic before the first call, but one is special all the same."""
# expect: shape x f32[8,4] -> f32[1,4]
# settles: 1

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for size in (8, 6, 5, 4, 1):
    x = torch.ones(size, 4)
    if size > 1:
        torch._dynamo.mark_dynamic(x, 0)
    with coldstep.step():
        coldstep.wait(step(x))
