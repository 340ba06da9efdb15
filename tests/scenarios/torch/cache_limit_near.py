"""Seven of eight variants: the time to say so."""
# expect: python_scalar mode 'a' -> 'b'
# expect: python_scalar mode 'b' -> 'c'
# expect: python_scalar mode 'c' -> 'd'
# expect: python_scalar mode 'd' -> 'e'
# expect: python_scalar mode 'e' -> 'f'
# expect: python_scalar mode 'f' -> 'g'
# finding: cache_limit_near

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, mode):
    return x + 1 if mode == "a" else x + 2


for mode in "abcdefg":
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), mode))
