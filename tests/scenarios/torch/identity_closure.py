"""Another function is captured."""
# expect: identity function "<function once>" -> "<function twice>"

import torch

import coldstep


def once(x):
    return x.sin()


def twice(x):
    return x.sin().sin()


def applied(function):
    return torch.compile(lambda x: function(x), backend="eager")


for function in (once, once, twice, once):
    with coldstep.step():
        coldstep.wait(applied(function)(torch.ones(3)))
