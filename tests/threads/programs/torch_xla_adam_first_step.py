"""Trains a small network with Adam on an XLA device, one graph for each step."""

# /// thread
# address = "https://github.com/tenstorrent/tt-blacksmith/pull/673"
# asked = "A training step on torch_xla is compiled once more at its second step."
# answer = """\
# AdamW makes its state (step, exp_avg, exp_avg_sq) at its first step, so the graph of step 0 has other inputs \
# than the following ones; create the state before the first step."""
# stack = "torch_xla"
# mechanism = "optimizer_state"
# argument = "optimizer.state"
# before = "empty"
# after = "step, exp_avg, exp_avg_sq"
# line = 46
# lines_accepted = [37, 46, 47]
# compiles = [2, 1]
# counted = "compilations (met.metric_data('CompileTime')[0])"
# cure = "Fill optimizer.state with zeros that are moved to the device before the loop."
# cure_lines = [
#     {line = 38, code = """
# for p in model.parameters():
#     mean, square = torch.zeros(p.shape).to(device), torch.zeros(p.shape).to(device)
#     optimizer.state[p] = {"step": torch.tensor(0.0), "exp_avg": mean, "exp_avg_sq": square}
# torch_xla.sync()"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
torch_xla.sync()

batches = [torch.randn(16, 8) for _ in range(5)]
for batch in batches:
    x = batch.to(device)
    loss = (model(x) - x.mean(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print("loss", repr(loss.item()))
