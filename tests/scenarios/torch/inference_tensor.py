"""A tensor that was made in inference mode is used outside."""
# expect: grad_mode x on -> inference

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


normal = torch.ones(3)
with torch.inference_mode():
    made_there = torch.ones(3)
for x in (normal, normal, made_there, normal):
    with coldstep.step():
        coldstep.wait(step(x))
