"""The last batch is a whole one in each process, where the first were spread over the mesh."""
# expect: sharding x "f32[8,4] @Shard(dim=0)/mesh(1)" -> "f32[8,4] @Replicate()/mesh(1)"

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import coldstep


@torch.compile(backend="eager")
def step(x):
    return x.sin()


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
spread, whole = (distribute_tensor(torch.ones(8, 4), mesh, [placement]) for placement in (Shard(0), Replicate()))
for x in (spread, spread, spread, whole):
    with coldstep.step():
        coldstep.wait(step(x))
dist.destroy_process_group()
