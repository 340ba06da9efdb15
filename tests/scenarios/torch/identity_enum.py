"""A member of an enumeration."""
# expect: identity mode Mode.A -> Mode.B

from enum import Enum

import torch

import coldstep


class Mode(Enum):
    A = 1
    B = 2


@torch.compile(backend="eager")
def step(x, mode):
    return x + 1 if mode is Mode.A else x + 2


for mode in (Mode.A, Mode.A, Mode.B, Mode.A):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), mode))
