"""Evaluation without gradients after training."""
# expect: grad_mode - on -> off

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for grad in (True, True, False, True):
    with coldstep.step(), torch.set_grad_enabled(grad):
        coldstep.wait(step(torch.ones(3)))
