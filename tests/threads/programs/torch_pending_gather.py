"""Trains a compiled block on reduced inputs, which some steps have waited for already."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/187073"
# asked = """\
# A compiled region recompiles when its input is an AsyncCollectiveTensor at some steps and a Tensor at others."""
# answer = """\
# A maintainer: Dynamo guards on the class of a tensor subclass, and the gathered tensor is plain once somebody \
# has waited for it; always hand the same class in (wait before the region)."""
# stack = "torch"
# mechanism = "type"
# argument = "x"
# before = "AsyncCollectiveTensor"
# after = "Tensor"
# line = 40
# lines_accepted = [33, 37, 39, 40]
# compiles = [2, 1]
# counted = "graphs that Dynamo compiled (counters['stats']['unique_graphs'])"
# cure = "Wait for the reduced tensor before the compiled block, at every step."
# cure_lines = [{line = 40, code = "    loss = block(funcol.wait_tensor(x)).square().mean()"}]
# cure_environment = {}
# losses = "equal"
# ///

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = nn.Linear(8, 8)
block = torch.compile(lambda x: torch.tanh(net(x)), backend="eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

for step in range(6):
    x = funcol.all_reduce(torch.randn(4, 8), "sum", dist.group.WORLD)
    if step % 3 == 2:
        x = funcol.wait_tensor(x)
    loss = block(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))

dist.destroy_process_group()
