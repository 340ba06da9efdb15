"""Mixed precision is switched on."""
# expect: autocast - off -> bf16
# expect: autocast - bf16 -> f16
# before: torch 2.8: guards do not tell bf16 from f16

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x @ x


for dtype in (None, None, torch.bfloat16, torch.float16, None):
    with coldstep.step(), torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        coldstep.wait(step(torch.ones(3, 3)))
