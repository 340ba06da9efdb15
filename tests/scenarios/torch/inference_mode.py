"""Inference mode."""
# expect: grad_mode - on -> inference

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


x = torch.ones(3)
for inference in (False, False, True, False):
    with coldstep.step(), torch.inference_mode(inference):
        coldstep.wait(step(x))
