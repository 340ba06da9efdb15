"""Trains a compiled stack of linear layers under DistributedDataParallel with small buckets."""

# /// thread
# address = "https://github.com/pytorch/pytorch/issues/108966"
# asked = """\
# Under DDP a model without graph breaks is compiled as many small graphs, more of them the smaller the DDP bucket \
# is."""
# answer = """\
# Maintainers: a limitation, since DDPOptimizer splits the graph at bucket boundaries to overlap communication; \
# larger buckets give fewer graphs, and optimize_ddp = False turns the splitting off (mlcommons/algorithmic- \
# efficiency#467)."""
# stack = "torch"
# mechanism = "other: DDP buckets split the graph"
# argument = "bucket_cap_mb"
# before = "1"
# after = ""
# line = 48
# lines_accepted = [48, 49, 50, 54]
# compiles = [4, 1]
# counted = "graphs given to AOTAutograd (counters['aot_autograd']['total'])"
# cure = "Set torch._dynamo.config.optimize_ddp = False before the first step (or use larger buckets)."
# cure_lines = [{line = 32, code = "torch._dynamo.config.optimize_ddp = False\ntorch.manual_seed(0)"}]
# cure_environment = {}
# losses = "equal"
# ///

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


net = Net()
ddp = DistributedDataParallel(net, bucket_cap_mb=1)
model = torch.compile(ddp, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for _ in range(4):
    x = torch.randn(4, 512)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))

dist.destroy_process_group()
