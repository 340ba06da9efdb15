"""A function that a global names is replaced."""
# expect: identity helper function -> "<function twice>"

import torch

import coldstep


def once(x):
    return x.sin()


def twice(x):
    return x.sin().sin()


@torch.compile(backend="eager")
def step(x):
    return helper(x)


for function in (once, once, twice, once):
    helper = function
    with coldstep.step():
        coldstep.wait(step(torch.ones(3)))
