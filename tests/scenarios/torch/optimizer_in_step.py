"""The optimizer's step inside the compiled training step, and a learning rate that changes."""
# expect: python_scalar optimizer.param_groups[0]['lr'] 0.1 -> 0.05
# break: explicit
# before: torch 2.6: PyTorch makes no number with a fraction a symbol

import torch

import coldstep

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)


@torch.compile(backend="eager")
def train_step():
    weight.grad = weight * 2
    optimizer.step()


for lr in (0.1, 0.1, 0.05, 0.025, 0.0125):
    optimizer.param_groups[0]["lr"] = lr
    with coldstep.step():
        coldstep.wait(train_step())
