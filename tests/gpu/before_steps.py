"""Starts the device, forms a process group, builds an extension for $DEVICE, loads weights onto it and records a CUDA
graph, and prints as JSON what it measures around each."""

import json
import os
import time

import torch
import torch.distributed as dist
from torch.utils.cpp_extension import load_inline

import coldstep

ADD = """
#include <torch/extension.h>
__global__ void add_one(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 1; }
void add(torch::Tensor x) { add_one<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), x.numel()); }
"""
device = os.environ["DEVICE"]
seconds: dict[str, float] = {}


class measured:
    """How long a block takes, by the name of a phase."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.began = time.perf_counter()

    def __exit__(self, *error):
        seconds[self.name] = seconds.get(self.name, 0) + time.perf_counter() - self.began


torch.save({"w": torch.zeros(50_000_000)}, "model.pt")
with coldstep.trace("run.pftrace"):
    with measured("device.init"):
        torch.cuda.init()
    with measured("comm.init"):
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29511", rank=0, world_size=1)
    with measured("load.weights"):
        weights = torch.load("model.pt", map_location=device)
    with measured("build.native"):
        added = load_inline("added", "void add(torch::Tensor x);", ADD, functions=["add"])
    x = torch.zeros(1000, device=device)
    added.add(x)
    dist.all_reduce(x)
    graph = torch.cuda.CUDAGraph()
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        y = torch.tanh(x @ torch.ones(1000, 1000, device=device))
    torch.cuda.synchronize()
    with measured("capture"), torch.cuda.graph(graph):
        for _ in range(2000):
            x = x + 1
    graph.replay()
    torch.cuda.synchronize()
    assert x.sum().item() == 2001 * 1000
dist.destroy_process_group()
print(json.dumps(seconds))
