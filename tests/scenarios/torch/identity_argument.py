"""Another function as an argument."""
# expect: identity function "<function once>" -> "<function twice>"

import torch

import coldstep


def once(x):
    return x.sin()


def twice(x):
    return x.sin().sin()


@torch.compile(backend="eager")
def apply(function, x):
    return function(x)


for function in (once, once, twice, once):
    with coldstep.step():
        coldstep.wait(apply(function, torch.ones(3)))
