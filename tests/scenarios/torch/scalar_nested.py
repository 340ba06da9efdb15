"""A number deep inside an argument."""
# expect: python_scalar batch['options'][1] 0.5 -> 0.25
# settles: 2
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep


@torch.compile(backend="eager")
def step(batch):
    return batch["x"] * batch["options"][1]


x = torch.ones(3)
for value in (0.5, 0.25, 0.125, 0.5, 0.25):
    with coldstep.step():
        coldstep.wait(step({"x": x, "options": [1, value]}))
