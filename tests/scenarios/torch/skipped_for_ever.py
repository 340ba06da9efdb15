"""One early return gives an empty graph: all variants are thrown away, the function runs eagerly."""
# expect: type mask f32[3] -> None
# finding: skipped_forever

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, mask):
    if mask is None:
        return x
    return x * mask


x = torch.ones(3)
for mask in (x, x, None, x, x):
    with coldstep.step():
        coldstep.wait(step(x, mask))
