"""mark_dynamic comes after the first call, with the same sizes."""
# expect: config mark_dynamic(x) "no mark" -> "dimension 0 dynamic"

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for late in (False, False, True, False):
    x = torch.ones(5, 2)
    if late:
        torch._dynamo.mark_dynamic(x, 0)
    with coldstep.step():
        coldstep.wait(step(x))
