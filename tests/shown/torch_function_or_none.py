"""A function is called with another one, and without."""

# shows: rules.dynamo REMEDIES[type of a function]

import torch


@torch.compile(backend="eager")
def f(x, act=None):
    return (x if act is None else act(x)).sum()


x = torch.linspace(-1, 1, 8)
for act in (None, torch.relu):
    print("loss", float(f(x, act)))
