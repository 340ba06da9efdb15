"""Trains a small regressor with a compiled AdamW step under a one-cycle schedule; the lr is a tensor already."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/133898"
# asked = "A compiled AdamW step recompiles under OneCycleLR although the learning rate is wrapped in a tensor."
# answer = """\
# A maintainer: OneCycleLR also changes betas, which the step reads as Python constants; do not let them change \
# (or make them tensors)."""
# stack = "torch"
# mechanism = "python_scalar"
# argument = "optimizer.param_groups[0]['betas'][0]"
# before = "0.95"
# after = "0.9404508497187474"
# line = 36
# lines_accepted = [36, 37, 42, 44]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Pass cycle_momentum=False to OneCycleLR, so that the betas stay as they are."
# cure_lines = [
#     {line = 36, code = "scheduler = OneCycleLR(optimizer, max_lr=0.05, total_steps=20, cycle_momentum=False)"},
# ]
# cure_environment = {}
# losses = "other"
# ///

import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

torch.manual_seed(0)
features = torch.randn(16, 8)
target = features.sum(dim=1, keepdim=True)

model = nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01))
scheduler = OneCycleLR(optimizer, max_lr=0.05, total_steps=20)
optimizer_step = torch.compile(optimizer.step, backend="eager")

for _ in range(8):
    loss = nn.functional.mse_loss(model(features), target)
    loss.backward()
    optimizer_step()
    optimizer.zero_grad()
    scheduler.step()
    print("loss", repr(loss.item()))
