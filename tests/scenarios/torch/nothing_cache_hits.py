"""Other values of the same types."""
# expect: nothing
# settles: 1

import torch

import coldstep


@torch.compile(backend="eager")
def step(batch, scale):
    return batch["x"] * scale


for value in (1.0, 2.0, 3.0, 4.0):
    with coldstep.step():
        coldstep.wait(step({"x": torch.ones(3) * value}, torch.tensor(value)))
