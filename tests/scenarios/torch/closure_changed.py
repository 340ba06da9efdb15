"""A counter in the enclosing function."""
# expect: closure count 1 -> 2
# settles: 2

import torch

import coldstep


def make():
    count = 0

    @torch.compile(backend="eager")
    def step(x):
        return x * count

    def train(x):
        nonlocal count
        count += 1
        return step(x)

    return train


train = make()
for _ in range(5):
    with coldstep.step():
        coldstep.wait(train(torch.ones(3)))
