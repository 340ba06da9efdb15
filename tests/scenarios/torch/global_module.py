"""A number in another module of the program."""
# expect: global epsilon 1 -> 2
# expect: global epsilon 2 -> 3

import types

import torch

import coldstep

settings = types.ModuleType("settings")
settings.epsilon = 1


@torch.compile(backend="eager")
def step(x):
    return x + settings.epsilon


for epsilon in (1, 1, 2, 3):
    settings.epsilon = epsilon
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
