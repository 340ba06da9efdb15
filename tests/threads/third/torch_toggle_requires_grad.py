"""Trains the head of a model with a compiled training step that freezes the other parameters first."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)


def toggle(module, wanted):
    for parameter in module.parameters():
        parameter.requires_grad = wanted


@torch.compile(backend="eager")
def training_step(model, x, y):
    toggle(model.body, False)
    prediction = model.head(torch.tanh(model.body(x)))
    return nn.functional.mse_loss(prediction, y)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)

for _ in range(4):
    loss = training_step(model, x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
# /// thread
# address = "https://github.com/Lightning-AI/pytorch-lightning/pull/21686"
# asked = "toggle_optimizer breaks the graph of a compiled training step, or fails in it."
# answer = """\
# Dynamo does not support setting requires_grad of a tensor; decorate the helper with torch.compiler.disable, so \
# that it runs as plain Python."""
# stack = "torch"
# mechanism = "other: graph break at a write to a tensor's attribute"
# argument = "requires_grad"
# before = ""
# after = ""
# line = 16
# lines_accepted = [14, 15, 21, 32]
# compiles = [1, 0]
# counted = "graph breaks at setattr (one is left, at the disabled function)"
# cure = "Decorate the helper with torch.compiler.disable."
# cure_lines = [
#   {line = 14, code = """
# @torch.compiler.disable
# def toggle(module, wanted):"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
