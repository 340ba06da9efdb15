"""Counts the model's operations on the first batch, then trains the compiled model."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/190286"
# asked = """\
# A compiled function whose first call ran under FlopCounterMode stays as slow as eager for the rest of the run."""
# answer = """\
# A maintainer: Dynamo skips a frame under a TorchDispatchMode and marks the code object as skipped for ever; make \
# the first call outside the mode (later versions skip only that call)."""
# stack = "torch"
# mechanism = "graph_break:skipped_frame"
# argument = "FlopCounterMode(display=False)"
# before = ""
# after = ""
# line = 36
# lines_accepted = [31, 36, 37]
# compiles = [0, 1]
# counted = "graphs that Dynamo compiled over all steps (the fault is that there are none)"
# cure = "Count on the plain module, so that the compiled one is called for the first time outside the counter."
# cure_lines = [{line = 37, code = "    net(batches[0])"}]
# cure_environment = {}
# losses = "equal"
# ///

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
model = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batches = [torch.randn(32, 8) for _ in range(6)]

counter = FlopCounterMode(display=False)
with counter:
    model(batches[0])
flops_per_step = 3 * counter.get_total_flops()

for batch in batches:
    loss = (model(batch) - batch.mean(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
