"""A flag, by keyword."""
# expect: python_scalar causal False -> True

import torch

import coldstep


@torch.compile(backend="eager")
def attend(x, *, causal=False):
    return x.tril() if causal else x * 2


for causal in (False, False, True, False):
    with coldstep.step():
        coldstep.wait(attend(torch.ones(3, 3), causal=causal))
