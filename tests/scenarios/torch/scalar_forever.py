"""A temperature, a Python number that changes at every step, where nothing may become dynamic."""
# expect: python_scalar temperature 2.0 -> 1.0
# expect: python_scalar temperature 1.0 -> 0.6666666666666666
# expect: python_scalar temperature 0.6666666666666666 -> 0.5
# expect: python_scalar temperature 0.5 -> 0.4
# expect: python_scalar temperature 0.4 -> 0.3333333333333333
# finding: repeat_offender
# finding: cache_limit_near
# finding: not_settled
# before: torch 2.8: PyTorch makes the number a symbol at its second value

import torch

import coldstep


@torch.compile(backend="eager", dynamic=False)
def step(x, temperature):
    return x / temperature


for n in range(6):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), 2.0 / (n + 1)))
