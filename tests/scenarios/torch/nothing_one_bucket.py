"""All parameters fit one of DDP's buckets, and the graph stays whole: no finding."""
# expect: nothing

import torch
import torch.distributed as dist


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.compile(torch.nn.parallel.DistributedDataParallel(Net()), backend="aot_eager")
for _ in range(4):
    model(torch.ones(2, 8)).sum().backward()
dist.destroy_process_group()
