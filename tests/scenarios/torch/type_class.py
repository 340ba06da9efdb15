"""An object of another class."""
# expect: type config A -> B

import torch

import coldstep


class A:
    scale = 2


class B:
    scale = 2


@torch.compile(backend="eager")
def step(x, config):
    return x * config.scale


for config in (A(), A(), B(), A()):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), config))
