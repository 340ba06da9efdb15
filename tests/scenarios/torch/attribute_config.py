"""A number in an object that is passed along."""
# expect: module_attribute config.scale 2 -> 3

import torch

import coldstep


class Config:
    scale = 2


@torch.compile(backend="eager")
def step(x, config):
    return x * config.scale


config = Config()
for scale in (2, 2, 3, 4):
    config.scale = scale
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), config))
