"""Gradients are None in the first step."""
# expect: gradient_state weight.grad None -> f32[3]
# settles: 2
# settling: gradient_state

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))


@torch.compile(backend="eager")
def penalty(weight):
    return weight.norm() if weight.grad is None else weight.norm() + weight.grad.norm()


for _ in range(5):
    with coldstep.step():
        coldstep.wait(penalty(weight))
        (weight**2).sum().backward()
