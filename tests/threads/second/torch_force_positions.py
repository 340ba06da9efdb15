"""Computes energies and forces of small clusters of atoms with a compiled potential."""

import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.radial = nn.Linear(1, 8)
        self.output = nn.Linear(8, 1)

    def forward(self, batch):
        positions = batch["positions"]
        positions.requires_grad_(True)
        distances = (positions[:, None] - positions[None, :]).square().sum(-1, keepdim=True)
        return self.output(torch.tanh(self.radial(distances))).sum()


torch.manual_seed(0)
model = torch.compile(Potential(), backend="eager")
for _ in range(4):
    batch = {"positions": torch.randn(5, 3)}
    energy = model(batch)
    forces = -torch.autograd.grad(energy, batch["positions"])[0]
    print("value", repr(energy.item() + forces.norm().item()))
# /// thread
# address = "https://github.com/ACEsuit/mace/pull/1170"
# asked = "The model no longer compiles as one graph with PyTorch 2.8."
# answer = """\
# positions.requires_grad_(True) in the model's forward breaks the graph; set the flag when the tensor is made, in \
# the data pipeline."""
# stack = "torch"
# mechanism = "graph_break:side_effect"
# argument = "positions.requires_grad_"
# before = ""
# after = ""
# line = 15
# lines_accepted = [13, 14, 21, 24]
# compiles = [1, 0]
# counted = "graph breaks (sum of counters['graph_break'])"
# cure = "Make the positions with requires_grad=True and leave the call out of forward."
# cure_lines = [
#   {line = 15, code = ""},
#   {line = 23, code = "    batch = {\"positions\": torch.randn(5, 3).requires_grad_(True)}"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
