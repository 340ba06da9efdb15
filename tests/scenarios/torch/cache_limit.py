"""So many variants that PyTorch makes no more, and runs the function eagerly where none fits."""
# expect: python_scalar mode 'a' -> 'b'
# expect: python_scalar mode 'b' -> 'c'
# finding: cache_limit

import torch

import coldstep

torch._dynamo.config.recompile_limit = 3


@torch.compile(backend="eager")
def step(x, mode):
    return x + 1 if mode == "a" else x + 2


for mode in "abcde":
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), mode))
