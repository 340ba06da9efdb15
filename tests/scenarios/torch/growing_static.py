"""Sequences grow by one at each call, and shapes may not become dynamic: each length is a variant, until the limit."""
# expect: shape x f32[2] -> f32[3]
# expect: shape x f32[3] -> f32[4]
# expect: shape x f32[4] -> f32[5]
# expect: shape x f32[5] -> f32[6]
# expect: shape x f32[6] -> f32[7]
# expect: shape x f32[7] -> f32[8]
# expect: shape x f32[8] -> f32[9]
# finding: repeat_offender
# finding: cache_limit
# finding: silent_eager
# pattern: growing
# pattern: growing
# pattern: growing
# pattern: growing
# pattern: growing
# pattern: growing
# pattern: growing

import torch

import coldstep


@torch.compile(backend="eager", dynamic=False)
def decode(x):
    return x.cumsum(0)


for length in range(2, 16):
    with coldstep.step():
        coldstep.wait(decode(torch.ones(length)))
