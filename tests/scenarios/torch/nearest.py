"""Two modes and a smaller last batch: judged against the variant of its own mode."""
# expect: grad_mode - on -> off
# expect: shape x f32[8] -> f32[5]

import torch

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


for size, grad in ((8, True), (8, False), (8, True), (8, False), (5, True)):
    with coldstep.step(), torch.set_grad_enabled(grad):
        coldstep.wait(step(torch.ones(size)))
