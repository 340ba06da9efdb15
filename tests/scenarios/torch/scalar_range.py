"""A loop's length is unrolled: every value compiles."""
# expect: python_scalar n 2 -> 3
# expect: python_scalar n 3 -> 4
# expect: python_scalar n 4 -> 5
# finding: repeat_offender

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, n):
    for i in range(n):
        x = x + i
    return x


for n in (2, 2, 3, 4, 5):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), n))
