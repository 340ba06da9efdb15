"""Another set of names."""
# expect: container flags {'a'} -> {'b'}

import torch

import coldstep


@torch.compile(backend="eager")
def step(x, flags):
    return x + 1 if "a" in flags else x + 2


for flags in ({"a"}, {"a"}, {"b"}, {"a"}):
    with coldstep.step():
        coldstep.wait(step(torch.ones(3), flags))
